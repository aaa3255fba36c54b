#!/usr/bin/env bash
# Builds everything and runs every test: installs what is missing (as root or through
# sudo), configures the preset cpu with tests, builds, and ends in ctest's summary and
# exit code.
#
#   tests/run.sh [--all] [arguments of ctest]
#   tests/run.sh -L fast        the unit tests alone
#   tests/run.sh -R accidents   the tests whose name matches
#   tests/run.sh --all          also the tests labelled slow: sanitizers, clang-tidy, CUDA builds,
#                               Slurm, a test bed of several hosts, more random strategies
#
# It takes at most 12 minutes on two cores without ccache, at most 45 with --all, and 4 GB
# of memory. tests/README.md says what runs when.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
which=(-LE slow)
packages=(--tests)
if [[ ${1:-} == --all ]]; then
  which=()
  packages+=(--testbed)
  shift
fi

"$root/jobs/install.sh" "${packages[@]}"
# shellcheck source-path=SCRIPTDIR source=../jobs/environment.sh
source "$root/jobs/environment.sh"

cd "$root"
cmake --preset cpu -DHIDUP_TESTS=ON
cmake --build --preset cpu
# Three tests run at once, because one of them often waits.
status=0
ctest --preset cpu --parallel 3 "${which[@]}" "$@" || status=$?

# The output of failed tests scrolled away long ago, so its end is shown again.
if [[ $status -ne 0 ]]; then
  cut -d : -f 2- build/Testing/Temporary/LastTestsFailed.log | while read -r name; do
    echo "---- the last lines of $name"
    awk -v name="$name" '/^[0-9]+\/[0-9]+ Testing: / { ours = substr($0, index($0, ": ") + 2) == name }
                         ours' build/Testing/Temporary/LastTest.log | grep -v '^$' | tail -n 25
  done
fi
exit "$status"
