#!/usr/bin/env bash
# Checks the sources, including uncommitted ones:
# lint.sh format|shell|operations|names|tidy|tidy-cuda BUILD
# format: clang-format. shell: shellcheck. operations: the files that name an operation are those in
# operations.txt. names: sources include what they use (names.py). tidy: clang-tidy, with the compile commands
# of the build folder BUILD; minutes.
# tidy-cuda: the same for sources that need CUDA, with the commands of a build on the shim.
set -euo pipefail

kind=$1
build=$2
python=${HIDUP_PYTHON:-python3}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sources() {
  git ls-files -z --cached --others --exclude-standard "$@"
}

# Many sources are checked together to parse their headers once. The analyzer takes most of the
# remaining time: it follows calls into our functions but not into the standard library's, and explores a
# tenth of the default number of states in the largest functions. The compile commands are GCC's: clang lacks
# some of its warnings and options.
tidy() {
  local unified config
  local -a analyzer=()
  for config in c++-stdlib-inlining=false max-nodes=20000; do
    analyzer+=(--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang
               "--extra-arg=$config")
  done
  unified=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -r '$unified'" EXIT
  "$python" tests/runs/unify.py "$build" "$unified" >"$unified/names"
  xargs -0 --max-procs=2 --max-args=1 clang-tidy --quiet -p "$unified" --config-file=.clang-tidy \
    --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unused-command-line-argument "${analyzer[@]}" <"$unified/names" \
    2> >(grep -v 'warnings generated' >&2)
}

case $kind in
  format) sources '*.h' '*.cpp' '*.cu' | xargs -0 clang-format --dry-run -Werror ;;
  shell) sources '*.sh' '*.sbatch' .ci/run | xargs -0 shellcheck --external-sources ;;
  operations)
    diff <(sed '/^#/d; /^$/d; s/ .*//' tests/runs/operations.txt | sort) \
      <(sources 'src/*' 'kernels/*' | xargs -0 grep -lE '\b(OpKind|Opcode)::[a-z]|using enum' | sort) ||
      {
        echo "lint.sh: these files differ from tests/runs/operations.txt: an operation belongs in its record" >&2
        exit 1
      }
    ;;
  names) sources 'src/*.cpp' 'src/*.h' 'kernels/*.cpp' 'kernels/*.h' | "$python" tests/runs/names.py ;;
  tidy)
    # Sources that need CUDA have no compile commands in this build.
    sources 'src/*.cpp' 'kernels/*.cpp' ':!src/device/cuda_*' ':!src/comm/nccl_*' \
      ':!kernels/*_cuda.cpp' | tidy
    ;;
  tidy-cuda) sources 'src/device/cuda_*.cpp' 'src/comm/nccl_*.cpp' 'kernels/*_cuda.cpp' | tidy ;;
  *)
    echo "lint.sh: unknown kind '$kind' (known: format, shell, operations, names, tidy, tidy-cuda)" >&2
    exit 2
    ;;
esac
