#!/usr/bin/env bash
# Takes a fresh Debian 12 machine to a trained model and its plot: installs missing packages (as root or
# through sudo), builds, trains inputs/models/tiny.yaml on two CPU ranks, and draws the loss and the time per
# step.
#
#   jobs/quickstart.sh [arguments of hidup train]
#   jobs/quickstart.sh --set data.path=my_text.txt
#
# Result: out/quickstart.h5, out/quickstart.png and the trained model in out/quickstart.ckpt, replaced at every
# run; the last lines say how to continue from it. On two cores: about four minutes the first time, half for
# packages and half for the build, then half a minute. Needs 3 GB of memory, nearly all for the build.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
out=$root/out/quickstart

times=()
# next_part NAME: ends the part before, and announces the next one.
next_part() {
  if [[ -n ${part:-} ]]; then
    times+=("$part $((SECONDS - part_start)) s")
  fi
  part=$1
  part_start=$SECONDS
  if [[ -n $part ]]; then
    echo "quickstart: $part"
  fi
}

next_part "install"
"$root/jobs/install.sh"

next_part "build"
# An existing build folder may have tests: its options are left as they are.
tests=()
if [[ ! -e $build/CMakeCache.txt ]]; then
  tests=(-DHIDUP_TESTS=OFF)
fi
(cd "$root" && cmake --preset cpu "${tests[@]}" >/dev/null && cmake --build --preset cpu --target hidup)

next_part "train"
mkdir -p "$root/out"
# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$root/jobs/environment.sh"
mpirun -n 2 "$build/hidup" train "$root/inputs/models/tiny.yaml" \
  --cluster "$root/inputs/clusters/laptop.yaml" --out "$out.h5" --overwrite "$@"

next_part "plot"
/usr/bin/python3 "$root/analysis" loss "$out.h5" -o "$out.png"

next_part ""
echo
checkpoints=("$out".ckpt/step-*.ckpt.h5)
checkpoint=${checkpoints[-1]}
echo "timing file: $out.h5"
echo "plot:        $out.png"
echo "model:       $checkpoint"
printf 'time:       '
printf ' %s' "${times[@]/%/,}" | sed 's/,$/\n/'
# Paths are relative to the caller's folder; in the root they are short.
from_here=$([[ $PWD == "$root" ]] || printf '%q/' "$root")
deck="${from_here}inputs/models/tiny.yaml"
cluster="--cluster ${from_here}inputs/clusters/laptop.yaml"
resume="--resume ${from_here}out/quickstart.ckpt/${checkpoint##*/}"
settings=${*:+$(printf ' %q' "$@")}
cat <<END

To go on, for example to step 2000; to evaluate it; to sample from it:
  source ${from_here}jobs/environment.sh
  mpirun -n 2 ${from_here}build/hidup train $deck $cluster --out ${from_here}out/quickstart.h5 --resume auto$settings --set train.steps=2000
  mpirun -n 2 ${from_here}build/hidup evaluate $deck $cluster $resume$settings
  ${from_here}build/hidup generate $deck $resume --prompt "int main("$settings
END
