#!/usr/bin/env bash
# Builds the CUDA back end with the host compiler, on tests/cuda_shim, and runs the tests of device
# and kernels on it. Two minutes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --preset cuda-shim
cmake --build --preset cuda-shim --parallel 2
exec ctest --preset cuda-shim --parallel 2
