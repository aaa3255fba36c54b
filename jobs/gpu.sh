#!/usr/bin/env bash
# Runs everything for a machine with a GPU, the most informative parts first: builds for that GPU,
# runs the tests natively, compares whole runs with those on CPUs, looks for wrong accesses and
# races in the kernels, and takes times. Leaves one report with its logs in a folder.
#
#   jobs/gpu.sh [PART...]      by default all parts, in this order:
#     build      for this GPU, and for CPUs
#     doctor     the machine, and the versions of libraries
#     test       of kernels, device and strategies; whole runs: golden values, precisions, CUDA
#     sanitize   compute-sanitizer over attention, norms, cross-entropy, then over the other kernels
#     nccl       NCCL itself, with one rank: not blocking, and captured
#     kernels    every kernel in bf16 against its floor, with a vocabulary of 50257 and of 50304
#     attention  beside PyTorch's
#     peer       training steps beside PyTorch's
#     graph      training steps with the CUDA graph, with times in every step of it, and without
#     ncu        Nsight Compute on the three operations that are furthest above their floors
#   jobs/gpu.sh configure      only the first steps of build, which compile nothing
#   jobs/gpu.sh --next         parts that have not run yet, as many as fit in 9 minutes; repeat it until
#                              all have run, where a command may take 10 minutes
#   jobs/gpu.sh --limits       the seconds that each part may take; together less than 30 minutes
#
#   HIDUP_REPORT=FOLDER        the report's folder (default out/gpu); parts add to it, and FOLDER.tar.gz
#                              has all of it after each part
#   HIDUP_PREFIX=FOLDER|FILE   output of jobs/debs.sh, for a machine without network. A FILE is unpacked in
#                              out/prefix, where later calls find it without HIDUP_PREFIX
#   HIDUP_JOBS=N               of the build and of tests at a time (default: the cores)
#   HIDUP_LIMIT=SECONDS        of each part, instead of its own
#
# Needs CUDA (nvcc, cuBLASLt; compute-sanitizer and ncu for their parts), a C++20 compiler, CMake
# 3.25, Ninja, and python3 with h5py and numpy (with PyTorch and PyYAML for attention and peer). The
# machine need not be Debian: without HIDUP_PREFIX it must have the libraries of README.md. The limits
# are for 16 cores. The report always has all results so far, in case the machine is taken away. The
# exit code is 1 where a part failed. After a failed build no other part runs.
# shellcheck disable=SC2317 # parts are called by their names
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
call_limit=540
order=(build doctor test sanitize nccl kernels attention peer graph ncu)
declare -A limits=([configure]=100 [build]=400 [doctor]=30 [test]=300 [sanitize]=240 [nccl]=40 [kernels]=150
  [attention]=100 [peer]=270 [graph]=90 [ncu]=90)

say() { # Markdown lines, into the report
  printf '%s\n' "$@" >>"$report/report.md"
}

# run TITLE LOG SHOW COMMAND...: all output goes to the log and to stdout. Lines that match SHOW (in sed -E's
# form) go to the report at once, as code; with SHOW = table all lines, as Markdown; with SHOW = none no line.
# The command is ended when the part's time is over, and after $each seconds if that is set.
run() {
  local title=$1 log=$report/$2 show=$3 status=0 start=$SECONDS
  if [[ $part == @(configure|build) ]] && ((part_failed)); then
    return
  fi
  local left=$((limit - SECONDS + part_start)) edit='s/^/    /;' most
  shift 3
  if ((left <= 0)); then
    ended "**$title: not run**, the part's time was over."
    return
  fi
  most=${each:-$left}
  left=$((left < most ? left : most))
  case $show in
    table) show='^' edit='' ;;
    none) show='\n' ;;
  esac
  echo "gpu.sh: $title"
  printf '\n$ %s\n' "$*" >>"$log"
  say "" "**$title**, from $(date -u +%H:%M:%S), at most $left s:" ""
  timeout --kill-after 10 "$left" "$@" 2>&1 | tee -a "$log" |
    sed --unbuffered -nE "p;/$show/{${edit}w /dev/stderr
}" 2>>"$report/report.md" || status=$?
  local took=$((SECONDS - start))
  case $status in
    0) say "" "Done in $took s." ;;
    77) say "" "Skipped, see ${log##*/}." ;;
    124 | 137) ended "**Ended** when its time was over, after $took s, see ${log##*/}." ;;
    *) ended "**Failed** with exit code $status after $took s, see ${log##*/}." ;;
  esac
}
ended() {
  say "" "$1"
  part_failed=1
}

archive() { # the report so far, without the profiles, which later calls use
  tar -C "${report%/*}" --exclude="${report##*/}/cache" -czf "$report.tar.gz.new" "${report##*/}"
  mv "$report.tar.gz.new" "$report.tar.gz"
}

has() { # TOOL; reports a missing one
  command -v "$1" >/dev/null || {
    say "" "$1 is not there: **skipped**."
    return 1
  }
}

part_configure() {
  local architecture
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  # Warnings of unknown compilers are no reason to stop here.
  run "Configure for CPUs" build.log none cmake --preset cpu -DHIDUP_TESTS=OFF -DHIDUP_WERROR=OFF
  run "Configure for sm_$architecture" build.log none cmake --preset cuda -DHIDUP_TESTS=ON \
    -DHIDUP_CUDA_ARCHITECTURES="$architecture" -DCMAKE_CUDA_FLAGS=-lineinfo -DHIDUP_WERROR=OFF \
    -DHIDUP_HOST_LIBRARIES=build
}

part_build() {
  touch "$report/build-failed"
  part_configure
  run "Build for CPUs" build.log '(error|FAILED):' \
    cmake --build --preset cpu --target hidup --parallel "$jobs"
  run "Build for GPUs, with tests" build.log '(error|FAILED):' \
    cmake --build --preset cuda-tests --parallel "$jobs"
  ((part_failed)) || rm "$report/build-failed"
}

part_doctor() {
  run "hidup doctor" doctor.log . mpirun -n 1 build-cuda/hidup doctor
  run "The GPU" doctor.log . nvidia-smi --format=csv \
    --query-gpu=name,compute_cap,memory.total,clocks.max.sm,power.limit,ecc.mode.current
}

part_test() {
  local test
  whole_runs golden precision
  # Whole binaries run, because ctest would start CUDA anew for each of their cases.
  for test in kernels device strategies/executor strategies/rules strategies; do
    run "Unit tests on the GPU: $test" test.log "$gtest" \
      "build-cuda/tests/${test%/*}/test_${test##*/}" --gtest_brief=1
  done
  run "Collectives of two ranks" test.log "$gtest" mpirun -n 2 build-cuda/tests/comm/test_comm
  run "Strategies of two ranks, 8 random ones per model" test.log "$gtest" \
    mpirun -n 2 build-cuda/tests/strategies/test_strategies_mpi 8
  whole_runs cuda cuda_steps
}
gtest='PASSED|FAILED|tests ran'
whole_runs() { # TEST...
  local test
  for test in "$@"; do
    run "Whole runs on the GPU: ${test}_test.py" test.log '^(Ran|OK|FAILED|FAIL:|ERROR:)' \
      env HIDUP_BINARY="$PWD/build-cuda/hidup" HIDUP_CPU_BINARY="$PWD/build/hidup" \
      HIDUP_DEVICE=cuda python3 "tests/runs/${test}_test.py"
  done
}

# Products are not checked: the library's kernels are not ours, and they are many.
part_sanitize() {
  local tool first='Attention*:*Norm*:CrossEntropy*'
  has compute-sanitizer || return 0
  for tool in memcheck racecheck synccheck; do
    sanitize "$tool" "attention, norms, cross-entropy" "$first"
  done
  sanitize memcheck "the other kernels" "-$first:Matmul.*:ExpertMatmul.*"
}
sanitize() { # TOOL WHAT FILTER
  each=100 run "compute-sanitizer $1 over $2" sanitize.log \
    'ERROR SUMMARY|RACECHECK SUMMARY|hazard|Invalid|Barrier error|PASSED|FAILED' \
    compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 \
    build-cuda/tests/kernels/test_kernels --gtest_brief=1 --gtest_filter="$3"
}

part_nccl() {
  run "NCCL with one rank" nccl.log 'PASSED|FAILED|SKIPPED|tests ran' \
    mpirun -n 1 build-cuda/tests/comm/test_nccl
}

bench=build-cuda/tests/bench/bench_kernels
gpt2=(inputs/models/gpt2-124m.yaml --set model.precision=bf16)

part_kernels() {
  local vocab
  for vocab in 50257 50304; do
    each=60 run "Kernels of GPT-2 with a vocabulary of $vocab" kernels.log table \
      "$bench" "${gpt2[@]}" --set train.batch=16 --set "model.vocab=$vocab"
  done
  run "Kernels of the MoE" kernels.log table "$bench" inputs/models/bert-sgmoe.yaml \
    --set model.precision=bf16 --set train.batch=64
}

part_attention() {
  run "Attention beside PyTorch's" attention.log table python3 tests/bench/attention.py
}

part_peer() {
  local model
  for model in gpt2-124m bert-sgmoe gpt2-350m; do
    each=120 run "$model beside PyTorch" peer.log table python3 tests/bench/peer.py "$model"
  done
}

measured() { # the first match of that edit (sed -E) among the times of kernels, if any
  if [[ -e $report/kernels.log ]]; then
    sed -nE "$1" "$report/kernels.log" | sed -n 1p
  fi
}

# The utilization uses the large product's rate, if kernels has measured it.
part_graph() {
  local graph timed rate
  rate=$(measured 's/^A product of .* in bf16: ([0-9.e+-]*) Tflop.*/\1/p')
  printf 'cluster:\n  device: {kind: cuda, flops: %sTFLOPS}\n  mesh: [{name: gpus, size: auto}]\n' \
    "${rate:-1}" >"$report/gpu.yaml"
  for graph in auto:10 auto:1 off:1; do
    timed=${graph#*:}
    graph=${graph%:*}
    run "GPT-2 with cluster.device.graph=$graph, one step of $timed timed" graph.log . \
      mpirun -n 1 build-cuda/hidup train "${gpt2[@]}" --cluster "$report/gpu.yaml" --strategy dp \
      --set train.batch=16 --set train.steps=30 --set train.warmup_steps=1 \
      --set cluster.profile=none --set "cluster.device.graph=$graph" \
      --set "cluster.device.timed_every=$timed" --out "$report/graph-$graph-$timed.h5" --overwrite
  done
}

# One layer has every operation; a profiler runs each kernel many times.
part_ncu() {
  local operation worst
  local lines='[(][0-9, ]+[)]x[(]|Duration|Throughput|Occupancy|Registers|^==ERROR'
  has ncu || return 0
  worst=$(measured 's/^Furthest above their floors: (.*)[.]$/\1/p' | tr , '\n' | cut -d: -f1)
  for operation in ${worst:-attention_backward attention adam}; do
    each=40 run "ncu of $operation" ncu.log "$lines" \
      ncu --clock-control none --nvtx --nvtx-include "hidup@$operation/" --launch-count 4 --section SpeedOfLight \
      --section Occupancy --section LaunchStats --section WarpStateStats \
      "$bench" "${gpt2[@]}" --set train.batch=16 --set model.layers=1 \
      --steps 2 --product 1024 --memory 64
  done
}

parts=("$@")
next=0
if [[ $* == --next ]]; then
  next=1
  parts=("${order[@]}")
elif [[ ${#parts[@]} -eq 0 ]]; then
  parts=("${order[@]}")
elif [[ $* == --limits ]]; then
  for part in "${order[@]}"; do
    echo "$part ${limits[$part]}"
  done
  exit 0
fi
for part in "${parts[@]}"; do
  if [[ -z ${limits[$part]:-} ]]; then
    echo "gpu.sh: no part '$part' (known: ${order[*]})" >&2
    exit 2
  fi
done
if ! gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader); then
  echo "gpu.sh: skipped: nvidia-smi finds no GPU" >&2
  exit 77
fi

report=${HIDUP_REPORT:-out/gpu}
jobs=${HIDUP_JOBS:-$(nproc)}
mkdir -p "$report"
report=$(cd "$report" && pwd)
PATH=$PATH:/usr/local/cuda/bin
if [[ -z ${HIDUP_PREFIX:-} && -e out/prefix/environment.sh ]]; then
  HIDUP_PREFIX=out/prefix
fi
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
export PYTHONUNBUFFERED=1 GTEST_COLOR=no

if [[ ! -e $report/report.md ]]; then
  say "# hidup on $(sort <<<"$gpus" | uniq -c | xargs)" "" \
    "Driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)," \
    "$(nvcc --version | tail -1), $(nproc) cores," \
    "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(date -u +%Y-%m-%d)." \
    "What has a beginning and no end was cut off."
fi
failed=0
for part in "${parts[@]}"; do
  part_start=$SECONDS
  limit=${HIDUP_LIMIT:-${limits[$part]}}
  if ((next)); then
    if grep -qxF "$part" "$report/done" 2>/dev/null; then
      continue
    elif ((SECONDS + limit > call_limit)); then
      echo "gpu.sh: $part and what follows it are for the next call"
      break
    fi
  fi
  if [[ $part != @(configure|build) && -e $report/build-failed ]]; then
    failed=1
    say "" "**No other part runs**: the build failed."
    break
  fi
  say "" "# ${part^}"
  part_failed=0
  "part_$part"
  failed=$((failed | part_failed))
  say "" "The part took $((SECONDS - part_start)) of $limit s."
  [[ -e $report/build-failed ]] || echo "$part" >>"$report/done"
  archive
done
archive
cat "$report/report.md"
exit "$failed"
