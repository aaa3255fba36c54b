#!/usr/bin/env bash
# Checks the sources, those not committed yet included: lint.sh format|shell|tidy BUILD
# format: clang-format. shell: shellcheck. tidy: clang-tidy, with the compile commands
# of the build folder BUILD; minutes.
set -euo pipefail

kind=$1
build=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sources() {
  git ls-files -z --cached --others --exclude-standard "$@"
}

case $kind in
  format) sources '*.h' '*.cpp' '*.cu' | xargs -0 clang-format --dry-run -Werror ;;
  shell) sources '*.sh' '*.sbatch' .ci/run | xargs -0 shellcheck --external-sources ;;
  tidy)
    # The compile commands are GCC's: clang does not know all of its warnings. What needs CUDA has
    # none in this build.
    sources 'src/*.cpp' 'kernels/*.cpp' ':!src/device/cuda_*' |
      xargs -0 --max-procs=2 --max-args=1 clang-tidy --quiet -p "$build" \
        --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated' >&2)
    ;;
  *)
    echo "lint.sh: unknown kind '$kind' (known: format, shell, tidy)" >&2
    exit 2
    ;;
esac
