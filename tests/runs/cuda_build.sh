#!/usr/bin/env bash
# Builds the program with CUDA's compiler for one GPU, and starts it where it finds none: it must end
# with exit code 8 and the reason. Exits with 77 without such a compiler. Takes two minutes, with a
# filled ccache some seconds.
#
# The compiled kernels are compared with kernels/compiled.txt, and with kernels/instructions.txt where
# there is a disassembler (instructions.py).
#
#   cuda_build.sh --tests    also builds the tests for GPUs, which must all be skipped; two more minutes
#   cuda_build.sh --table    makes both tables anew, after a build from scratch
set -euo pipefail

mode=${1:-}
table=()

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvcc >/dev/null; then
  echo "cuda_build.sh: skipped: no nvcc in PATH, nor in /usr/local/cuda/bin"
  exit 77
fi
# shellcheck source=jobs/environment.sh
source jobs/environment.sh

# Code without device code comes from the build for CPUs. Host code is little optimized, because here it only
# has to start. nvcc's own flags stay those of the preset.
options=(-DHIDUP_CUDA_ARCHITECTURES=90 -DCMAKE_CUDA_FLAGS=-Xptxas=-v -DHIDUP_HOST_LIBRARIES="$PWD/build"
         "-DCMAKE_CXX_FLAGS_RELEASE=-Og -DNDEBUG")
targets=cuda
if [[ $mode == --tests ]]; then
  options+=(-DHIDUP_TESTS=ON)
  targets=cuda-tests
fi
if [[ $mode == --table ]]; then
  table=(--write)
  rm -rf build-cuda
fi
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cmake --preset cuda "${options[@]}"
cmake --build --preset "$targets" --parallel 2 >"$folder/log" 2>&1 || {
  cat "$folder/log"
  exit 1
}
if grep -q "Compiling entry function" "$folder/log"; then
  tests/runs/compiled_kernels.py "$folder/log" "${table[@]}" || [[ $? == 77 ]]
fi
tests/runs/instructions.py build-cuda "${table[@]}" || [[ $? == 77 ]]

export CUDA_VISIBLE_DEVICES=
status=0
mpirun -n 2 build-cuda/hidup train inputs/models/tiny.yaml \
  --cluster inputs/clusters/laptop.yaml --strategy dp --set cluster.device.kind=cuda \
  --out "$folder/run.h5" 2>"$folder/errors" || status=$?
cat "$folder/errors"
if ((status != 8)); then
  echo "cuda_build.sh: exit code $status, expected 8" >&2
  exit 1
fi
if [[ $(grep -c "hidup: error" "$folder/errors") != 1 ]] ||
  ! grep -q "cluster.device.kind is cuda, but no GPU is found: " "$folder/errors"; then
  echo "cuda_build.sh: expected one error that says that no GPU is found" >&2
  exit 1
fi
build-cuda/hidup doctor | tee "$folder/doctor"
grep -q "no GPU is found" "$folder/doctor"
grep -Eq "^NCCL +2[.][0-9.]+ +2[.][0-9.]+$" "$folder/doctor"

if [[ $mode == --tests ]]; then
  ctest --preset cuda >"$folder/tests"
  sed -n '/tests passed/,$p' "$folder/tests"
  if grep -E '^ *[0-9]+/[0-9]+ Test' "$folder/tests" | grep -v 'Skipped'; then
    echo "cuda_build.sh: these tests say that they passed without a GPU" >&2
    exit 1
  fi
fi
