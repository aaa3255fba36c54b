#!/usr/bin/env bash
# Rehearses a plan for a remote cluster: trains a small version of a model on N CPU ranks of this
# machine, with the cluster's times (cluster.emulate). Losses are true.
#
#   jobs/rehearse.sh DECK CLUSTER N [key=value]...
#   jobs/rehearse.sh inputs/models/bert-sgmoe.yaml inputs/clusters/v100-2x4-30gbps.yaml 8
#   STRATEGY=fsdp jobs/rehearse.sh inputs/models/gpt2-350m.yaml inputs/clusters/v100-1x8.yaml 8 \
#     train.microbatches=2 cluster.devices='[{count: 4, flops: 8TFLOPS}, {count: 4, flops: 4TFLOPS}]'
#
# The real plan is made first, for the deck on all ranks of the cluster. The model that trains has 4
# layers, 64 wide, in the real one's proportions; N ranks fill the axes of the mesh from the innermost
# on. Operations and parameters get the real plan's choices for their counterparts. Rates and links are
# scaled: a step takes about as long, and the messages along an axis take as much of the time of
# computation, as in the real plan (jobs/rehearsal.py). Properties that cannot be kept are reported, with
# a warning or with exit code 2. key=value goes to hidup's --set for both, the real plan and the
# rehearsal, and SIZES="key=value ..." for the rehearsal alone. A trial without emulation measures what a
# step needs of this machine. The dilation is chosen so that a step takes at least half a second here and
# at most 40 % of the cores' time.
#
#   STRATEGY  search (default), a name or a file, of the real plan
#   STEPS     default 6; the first does not count
#   OUT       the results' name; default: out/rehearsal of this repository
#   HIDUP     the program; default: build/hidup of this repository
#
# Prints the step as simulated, in emulated time, and in wall time over dilation; the late instructions;
# and the least time of the step in any order of its instructions. Result: OUT.h5. Seconds on two cores
# for 4 ranks, half a minute for 16. Needs mpirun and Debian's python3-h5py (jobs/install.sh).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
hidup=${HIDUP:-$root/build/hidup}
strategy=${STRATEGY:-search}
steps=${STEPS:-6}
out=${OUT:-$root/out/rehearsal}

usage() {
  echo "rehearse: $* (see the head of $0)" >&2
  exit 2
}

[[ $# -ge 3 ]] || usage "DECK CLUSTER N are its arguments"
deck=$1 cluster=$2 ranks=$3
shift 3
[[ $ranks =~ ^[1-9][0-9]*$ ]] || usage "the number of ranks is '$ranks'; it can be 1 or more"
[[ $steps =~ ^([2-9]|[1-9][0-9]+)$ ]] || usage "STEPS is '$steps'; it can be 2 or more"
[[ -r $deck && -r $cluster ]] || usage "$deck and $cluster are to be decks"

# train STRATEGY OUT [key=value]...: OUT.log gets the output of hidup.
train() {
  local values=("${settings[@]}") value
  for value in "${@:3}"; do
    values+=(--set "$value")
  done
  mpirun -n "$ranks" "$hidup" train "$deck" --cluster "$cluster" --strategy "$1" --out "$2.h5" \
    --overwrite "${values[@]}" &>"$2.log" || {
    cat "$2.log" >&2
    exit 1
  }
}

mkdir -p "$(dirname "$out")"
# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$root/jobs/environment.sh"
/usr/bin/python3 "$root/jobs/rehearsal.py" "$hidup" "$deck" "$cluster" "$ranks" "$strategy" "$out" "$@"
strategy=$out.yaml
settings=()
while IFS= read -r value; do
  settings+=(--set "$value")
done < <(cat "$out.settings" && echo "train.steps=$steps")
plan=(--cluster "$cluster" --ranks "$ranks" "${settings[@]}" --set cluster.emulate=on)
read -r name simulated floor < <("$hidup" explain "$deck" "${plan[@]}" --strategy "$strategy" --json |
  /usr/bin/python3 -c '
import json, sys
plan = json.load(sys.stdin)
print(plan["strategy"], plan["predicted_iteration_s"],
      plan["emulated"]["dependency_floor_s"])')

# Without emulation all ranks compute as fast as the cores allow.
train "$strategy" "$out.trial" cluster.emulate=off cluster.device.kind=cpu train.steps=4
read -r needed dilation < <(/usr/bin/python3 - "$out.trial.h5" "$simulated" <<'END'
import statistics
import sys

import h5py

with h5py.File(sys.argv[1]) as file:
    needed = statistics.median(file["/iterations/wall_s"][1:])
print(needed, f"{max(0.5, needed / 0.4) / float(sys.argv[2]):.3g}")
END
)

train "$strategy" "$out" cluster.emulate=on "cluster.emulate_dilation=$dilation"
/usr/bin/python3 - "$out.h5" "$name" "$ranks" "$simulated" "$floor" "$needed" <<'END'
import statistics
import sys

import h5py

simulated, floor, needed = map(float, sys.argv[4:])
with h5py.File(sys.argv[1]) as file:
    emulated = statistics.median(file["/iterations/wall_s"][1:])
    dilation = file["emulation"].attrs["dilation"]
    wall = statistics.median(file["/emulation/wall_s"][1:]) / dilation
    late = int(file["/emulation/late_instructions"][1:].sum())
    rows, ranks = file["/emulation/late_instructions"].shape
    all_of_them = (rows - 1) * ranks * len(file["/program/name"])
    losses = file["/iterations/loss"]
    losses = losses[0], losses[-1]


def ms(seconds):
    return f"{1e3 * seconds:12.4f} ms"


print(end=open(sys.argv[1][:-len(".h5")] + ".kept", encoding="utf-8").read())
print(f"strategy {sys.argv[2]} on {sys.argv[3]} rank(s), dilation {dilation:g}; "
      f"a step needs {needed:.3g} s of this machine, loss {losses[0]:.4f} to {losses[1]:.4f}")
print(f"simulated       {ms(simulated)}")
print(f"emulated        {ms(emulated)}  {100 * (emulated / simulated - 1):+.3f} %")
print(f"wall / dilation {ms(wall)}  {100 * (wall / emulated - 1):+.3f} % of the emulated")
print(f"floor           {ms(floor)}  the wall takes {wall / floor:.3f} times as long")
print(f"late            {late} of {all_of_them} instructions, {100 * late / all_of_them:.2f} %")
print(f"file            {sys.argv[1]}")
END
grep '^hidup: warning' "$out.log" || true
