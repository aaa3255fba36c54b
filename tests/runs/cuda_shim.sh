#!/usr/bin/env bash
# Builds the CUDA back end with the host compiler, on tests/cuda_shim, and runs on it the tests of
# what it stands on. The preset cpu must be built: its libraries do what has no device code. Whole runs
# on it are ctest's cuda_shim.cuda, .cuda_steps and .gpu_rehearsal.
#
#   cuda_shim.sh          both
#   cuda_shim.sh build    one of them: ctest builds, and runs clang-tidy, beside other tests
#   cuda_shim.sh run
set -euo pipefail

part=${1:-both}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ $part != run ]]; then
  cmake --preset cuda-shim
  cmake --build --preset cuda-shim --parallel 2
  tests/runs/lint.sh tidy-cuda build-cuda-shim
fi
if [[ $part == build ]]; then
  exit 0
fi

ctest --preset cuda-shim --parallel 2
