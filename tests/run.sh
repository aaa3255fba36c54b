#!/usr/bin/env bash
# Builds everything and runs every test: installs what is missing (as root or through
# sudo), configures the preset cpu with tests, builds, and ends in ctest's summary and
# exit code.
#
#   tests/run.sh [arguments of ctest]
#   tests/run.sh -L fast        the unit tests alone
#   tests/run.sh -R accidents   the tests whose name matches
#
# On two cores all of it takes about 50 minutes, most of them in the builds with
# sanitizers and in clang-tidy (label slow), and 4 GB of memory.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/jobs/install.sh" --tests
# shellcheck source-path=SCRIPTDIR source=../jobs/environment.sh
source "$root/jobs/environment.sh"

cd "$root"
cmake --preset cpu -DHIDUP_TESTS=ON
cmake --build --preset cpu
exec ctest --preset cpu --parallel 2 "$@"
