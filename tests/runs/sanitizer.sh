#!/usr/bin/env bash
# Builds a preset with sanitizers, and runs the unit tests and a training run on two ranks
# under it. Any report fails. Takes minutes, mostly for the build.
#
#   sanitizer.sh asan|tsan          does both
#   sanitizer.sh asan|tsan build    builds only: ctest builds beside other tests
#   sanitizer.sh asan|tsan run      runs only
set -euo pipefail

preset=$1
part=${2:-both}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build-$preset
cd "$root"
# shellcheck source-path=SCRIPTDIR source=../../jobs/environment.sh
source jobs/environment.sh

# Open MPI unloads its plugins at its end. Leaks in them can be told from ours only while they are loaded. Up
# to GCC 13 the leak check sometimes ends in a segmentation fault, where dynamic TLS looks like that of an old
# C library (github.com/Mudlet/Mudlet/issues/9809); ours is static.
export ASAN_OPTIONS=verify_asan_link_order=0:intercept_tls_get_addr=0
export LSAN_OPTIONS=suppressions=$root/tests/runs/asan.supp:print_suppressions=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Open MPI synchronizes its threads with its own atomics, which the sanitizer cannot see.
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1

if [[ $part != run ]]; then
  cmake --preset "$preset" -DHIDUP_TESTS=ON
  cmake --build --preset "$preset" --parallel 2
fi
if [[ $part == build ]]; then
  exit 0
fi

stay_loaded=$build/stay_loaded.so
echo 'int dlclose(void* library) { return library == 0; }' | cc -shared -fPIC -x c -o "$stay_loaded" -

# CTest accepts at most 9 groups in the pattern of a preset. With more it complains and runs all tests.
if complaint=$(ctest --preset "$preset" -N 2>&1 | grep RegularExpression); then
  echo "$complaint (CMakePresets.json, test preset $preset)" >&2
  exit 1
fi
LD_PRELOAD=$stay_loaded ctest --preset "$preset" --parallel 2
# The first run measures a profile. Sanitized code is slow, so there are few sequences.
rm -rf "$build/cache"
export XDG_CACHE_HOME=$build/cache
for strategy in ep-deepspeed search; do
  LD_PRELOAD=$stay_loaded mpirun -n 2 "$build/hidup" train inputs/models/tiny.yaml \
    --cluster inputs/clusters/laptop.yaml --out "$build/sanitizer.h5" --overwrite \
    --strategy "$strategy" --set train.batch=4 --set train.microbatches=2 --set train.steps=5 \
    --set train.warmup_steps=1 --set data.validation=0.002
done
