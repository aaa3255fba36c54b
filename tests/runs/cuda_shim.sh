#!/usr/bin/env bash
# Builds the CUDA back end with the host compiler, on tests/cuda_shim, runs on it the tests of what
# it stands on, and whole runs, which are compared with those of the program in HIDUP_BINARY (built
# for CPUs; without it build/hidup) and with PyTorch's values. Five minutes.
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

export HIDUP_CPU_BINARY=${HIDUP_BINARY:-$PWD/build/hidup}
export HIDUP_BINARY=$PWD/build-cuda-shim/hidup HIDUP_DEVICE=cuda
for test in cuda cuda_steps golden; do
  "${HIDUP_PYTHON:-python3}" "tests/runs/${test}_test.py"
done
