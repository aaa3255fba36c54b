#!/usr/bin/env bash
# Counts the CUDA kernels' accesses to memory on tests/cuda_shim, and compares them with
# kernels/counted.txt. Takes a minute and the build of the kernels.
#
#   counted_kernels.sh --table    makes kernels/counted.txt anew
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ ${1:-} == --table ]]; then
  export HIDUP_WRITE_COUNTED=1
fi
cmake --preset cuda-shim
cmake --build --preset cuda-shim --parallel 2 --target test_kernel_counters
build-cuda-shim/tests/cuda_shim/test_kernel_counters --gtest_filter='Counted.*'
