#!/usr/bin/env bash
# Checks the sources, including uncommitted ones:
# lint.sh format|shell|operations|alone|tidy|tidy-cuda BUILD
# format: clang-format. shell: shellcheck. operations: the files that name an operation are those in
# operations.txt. alone: every source includes the headers that it uses; minutes. tidy: clang-tidy, with
# the compile commands of the build folder BUILD; minutes. tidy-cuda: the same for sources that need
# CUDA, with the commands of a build on the shim.
set -euo pipefail

kind=$1
build=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sources() {
  git ls-files -z --cached --others --exclude-standard "$@"
}

# The sources of a folder are checked together to parse their headers once. The analyzer takes most of the
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
  "${HIDUP_PYTHON:-python3}" tests/runs/unify.py "$build" "$unified" >"$unified/names"
  xargs -0 --max-procs=2 --max-args=1 clang-tidy --quiet -p "$unified" --config-file=.clang-tidy \
    --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unused-command-line-argument "${analyzer[@]}" <"$unified/names" \
    2> >(grep -v 'warnings generated' >&2)
}

# The other builds compile sources in groups, where one sees another's includes. So every source is parsed
# alone, as in the preset dev but without generating code.
alone() {
  local folder
  folder=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -r '$folder'" EXIT
  cmake --preset dev -B "$folder" -DHIDUP_TESTS=OFF >"$folder/log" || { cat "$folder/log"; return 1; }
  "${HIDUP_PYTHON:-python3}" - "$folder" <<'PYTHON' | xargs -0 --max-procs=2 --max-args=1 bash -c
import json, os, re, sys
for entry in json.load(open(os.path.join(sys.argv[1], "compile_commands.json"))):
    if not entry["file"].startswith(sys.argv[1]):  # what the build writes is not there yet
        print(re.sub(r" -o \S+ -c ", " -fsyntax-only ", entry["command"]), end="\0")
PYTHON
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
  alone) alone ;;
  tidy)
    # Sources that need CUDA have no compile commands in this build.
    sources 'src/*.cpp' 'kernels/*.cpp' ':!src/device/cuda_*' ':!src/comm/nccl_*' \
      ':!kernels/*_cuda.cpp' | tidy
    ;;
  tidy-cuda) sources 'src/device/cuda_*.cpp' 'src/comm/nccl_*.cpp' 'kernels/*_cuda.cpp' | tidy ;;
  *)
    echo "lint.sh: unknown kind '$kind' (known: format, shell, operations, alone, tidy, tidy-cuda)" >&2
    exit 2
    ;;
esac
