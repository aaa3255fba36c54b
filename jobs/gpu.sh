#!/usr/bin/env bash
# Everything there is to run on a machine with a GPU: builds for that GPU, runs the tests natively,
# compares whole runs with those on CPUs, looks for wrong accesses and races in the kernels, and
# takes times. Leaves one report with its logs and timing files in a folder.
#
#   jobs/gpu.sh [PART...]      of: build test sanitize bench; without any all of them, in this order
#
#   HIDUP_REPORT=FOLDER        where the report goes (default out/gpu); parts add to it
#   HIDUP_PREFIX=FOLDER|FILE   for a machine without network: what jobs/debs.sh made
#   HIDUP_JOBS=N               of the build and of tests at a time (default: the cores)
#
# Needs CUDA (nvcc, cuBLASLt; compute-sanitizer for sanitize), a C++20 compiler, CMake 3.25, Ninja,
# and python3 with h5py and numpy (with PyTorch and PyYAML for bench). The machine need not be
# Debian: without HIDUP_PREFIX the libraries of README.md must be there. With 16 cores at most ten
# minutes a part, which is then ended, and 25 in all. The exit code is 1 where a part failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
report=${HIDUP_REPORT:-out/gpu}
jobs=${HIDUP_JOBS:-$(nproc)}
limit=580 # seconds of a part
mkdir -p "$report"
report=$(cd "$report" && pwd)
PATH=$PATH:/usr/local/cuda/bin

if [[ -n ${HIDUP_PREFIX:-} ]]; then
  prefix=$HIDUP_PREFIX
  if [[ -f $prefix ]]; then
    prefix=$PWD/out/prefix
    mkdir -p "$prefix"
    tar -C "$prefix" -xzf "$HIDUP_PREFIX"
  fi
  # shellcheck disable=SC1091  # jobs/debs.sh wrote it
  source "$prefix/environment.sh"
fi
# shellcheck source=jobs/environment.sh
source jobs/environment.sh
export XDG_CACHE_HOME=$report/cache # profiles of this machine

say() { # Markdown lines, into the report
  printf '%s\n' "$@" >>"$report/report.md"
}

# run TITLE LOG COMMAND...: its output goes to the log and on; how it ended, to the report. Ended
# when the part's time is over.
run() {
  local title=$1 log=$report/$2 status=0 start=$SECONDS
  local left=$((limit - SECONDS + part_start))
  shift 2
  if ((left <= 0)); then
    say "- $title: **not run**, the part's time was over"
    failed=1
    return
  fi
  echo "gpu.sh: $title"
  printf '\n$ %s\n' "$*" >>"$log"
  timeout --kill-after 10 "$left" "$@" 2>&1 | tee -a "$log" || status=$?
  case $status in
    0) say "- $title: done in $((SECONDS - start)) s" ;;
    77) say "- $title: skipped, see ${log##*/}" ;;
    *)
      say "- $title: **failed** with exit code $status after $((SECONDS - start)) s, see ${log##*/}"
      failed=1
      ;;
  esac
}

part_build() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  # Warnings of compilers that we do not know are no reason to stop here.
  run "configure for sm_$architecture" build.log cmake --preset cuda -DHIDUP_TESTS=ON \
    -DHIDUP_CUDA_ARCHITECTURES="$architecture" -DCMAKE_CUDA_FLAGS=-lineinfo -DHIDUP_WERROR=OFF
  run "build for GPUs, with tests" build.log \
    cmake --build --preset cuda-tests --parallel "$jobs"
  run "configure for CPUs" build.log cmake --preset cpu -DHIDUP_TESTS=OFF -DHIDUP_WERROR=OFF
  run "build for CPUs" build.log cmake --build --preset cpu --target hidup --parallel "$jobs"
  run "doctor" build.log mpirun -n 2 build-cuda/hidup doctor
}

part_test() {
  run "unit tests on the GPU" test.log \
    ctest --preset cuda --parallel "$((jobs < 4 ? jobs : 4))" --output-log "$report/ctest.log"
  say "" '```' "$(grep -E 'tests passed|tests failed|Skipped|Failed  *$|\(Failed\)|\(Timeout\)' \
    "$report/ctest.log" | head -40)" '```' ""
  local test
  for test in cuda golden; do
    run "whole runs on the GPU: ${test}_test.py" test.log \
      env HIDUP_BINARY="$PWD/build-cuda/hidup" HIDUP_CPU_BINARY="$PWD/build/hidup" \
      HIDUP_DEVICE=cuda python3 "tests/runs/${test}_test.py"
  done
}

# The products are the library's, whose kernels are not ours to look at, and many.
part_sanitize() {
  local tool
  if ! command -v compute-sanitizer >/dev/null; then
    say "- compute-sanitizer is not there: **skipped**"
    return
  fi
  for tool in memcheck racecheck; do
    run "compute-sanitizer $tool over the kernel tests" sanitize.log \
      timeout 280 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      build-cuda/tests/kernels/test_kernels --gtest_brief=1 \
      --gtest_filter='-Matmul.*:ExpertMatmul.*'
  done
  say "" '```' "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|hazard|Invalid|PASSED|FAILED' \
    "$report/sanitize.log" | head -40)" '```' ""
}

part_bench() {
  local model settings rate
  for model in gpt2-124m bert-sgmoe; do
    settings=(--set train.batch=8)
    if [[ $model == bert-sgmoe ]]; then
      settings=(--set train.batch=64)
    fi
    run "kernels of $model" bench.log timeout 120 build-cuda/tests/bench/bench_kernels \
      "inputs/models/$model.yaml" "${settings[@]}" --set model.dropout=0.1
  done
  # Its utilization is that of the large product's rate, which was just measured.
  rate=$(sed -n 's/^A product of .*: \([0-9.e+-]*\) Tflop.*/\1/p' "$report/bench.log" | tail -1)
  printf 'cluster:\n  device: {kind: cuda, flops: %sTFLOPS}\n  mesh: [{name: gpus, size: auto}]\n' \
    "${rate:-1}" >"$report/gpu.yaml"
  run "a run of gpt2-124m" bench.log timeout 120 mpirun -n 1 build-cuda/hidup train \
    inputs/models/gpt2-124m.yaml --cluster "$report/gpu.yaml" --strategy dp \
    --set train.batch=16 --set train.steps=30 --set train.warmup_steps=1 \
    --set cluster.profile=none --out "$report/gpt2-124m.h5" --overwrite
  run "hidup beside PyTorch" bench.log timeout 300 python3 tests/bench/peer.py
  say "" "$(sed '/^\$ /d' "$report/bench.log")" ""
}

failed=0
parts=("$@")
if [[ ${#parts[@]} -eq 0 ]]; then
  parts=(build test sanitize bench)
fi
for part in "${parts[@]}"; do
  if [[ ! $part =~ ^(build|test|sanitize|bench)$ ]]; then
    echo "gpu.sh: no part '$part' (known: build, test, sanitize, bench)" >&2
    exit 2
  fi
done
if ! gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader); then
  echo "gpu.sh: skipped: nvidia-smi finds no GPU" >&2
  exit 77
fi

if [[ ! -e $report/report.md ]]; then
  say "# hidup on $(sort <<<"$gpus" | uniq -c | xargs)" "" \
    "Driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)," \
    "$(nvcc --version | tail -1), $(nproc) cores," \
    "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(date -u +%Y-%m-%d)."
fi
for part in "${parts[@]}"; do
  part_start=$SECONDS
  say "" "## ${part^}" ""
  case $part in
    build) part_build ;;
    test) part_test ;;
    sanitize) part_sanitize ;;
    bench) part_bench ;;
  esac
  say "" "The part took $((SECONDS - part_start)) s."
done
rm -rf "$XDG_CACHE_HOME"
cat "$report/report.md"
exit "$failed"
