#!/usr/bin/env bash
# Builds the CUDA back end with the host compiler, on tests/cuda_shim, and runs the tests of its layers.
# The preset cpu must be built: its libraries have all code without device code. Whole runs are ctest's
# cuda_shim.cuda, .cuda_steps and .gpu_rehearsal.
#
#   cuda_shim.sh          does both
#   cuda_shim.sh build    builds only: ctest builds, and runs clang-tidy, beside other tests
#   cuda_shim.sh run      runs the tests only
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
