#!/usr/bin/env bash
# Trains one deck with mpirun and continues with the remaining hosts when a rank or a host is lost: asks
# which hosts still answer, and starts again on those from the newest checkpoint.
#
#   jobs/keep-going.sh N DECK --cluster CLUSTER [options of hidup train]...
#   HOSTFILE=hosts jobs/keep-going.sh 32 DECK --cluster CLUSTER --set train.checkpoint.every=5min
#
# N ranks. The deck should write checkpoints (train.checkpoint), and the mesh needs an axis of size
# auto, so that fewer ranks fit it. The default --out is out/DECK-TIME.h5.
#
#   HOSTFILE  hosts in the form of mpirun's --hostfile: "NAME slots=RANKS" a line. Hosts without slots
#             share the ranks evenly. Without it all ranks are on this machine
#   AGENT     asks a host: "$AGENT HOST true". Default: ssh without passwords, 3 s to connect
#   LIMIT     starts in a row that may fail before a newer checkpoint exists; default 3
#   HIDUP     the program; default: build/hidup of this repository
#
# SIGUSR1, SIGTERM and SIGINT stop the training after a checkpoint, with exit code 7; a second one
# ends it at once. Exit code: that of hidup.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
agent=${AGENT:-ssh -o BatchMode=yes -o ConnectTimeout=3}
hidup=${HIDUP:-$here/../build/hidup}
limit=${LIMIT:-3}
answer_within=5  # seconds: $agent may hang
end_within=4     # seconds, once a rank has aborted the others

say() {
  echo "keep-going: $*" >&2
}

usage() {
  say "$* (see the head of $0)"
  exit 2
}

[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || usage "the number of ranks is '${1:-}'; it can be 1 or more"
[[ $# -ge 2 ]] || usage "N DECK are its arguments"
ranks=$1
train=("${@:2}")
if [[ " ${train[*]} " != *" --out "* ]]; then
  mkdir -p out
  train+=(--out "out/$(basename "$2" .yaml)-$(date -u +%Y%m%d-%H%M%S).h5")
fi

# Hosts in the order of the file, and the number of ranks of each.
hosts=() slots=()

read_hosts() {
  local name rest left=$ranks i
  while read -r name rest; do
    [[ -n $name && $name != \#* ]] || continue
    hosts+=("$name")
    [[ $rest =~ slots=([0-9]+) ]] && slots+=("${BASH_REMATCH[1]}") || slots+=(0)
  done <"$HOSTFILE"
  [[ ${#hosts[@]} -gt 0 ]] || usage "no hosts in $HOSTFILE"
  for i in "${!hosts[@]}"; do
    ((slots[i] > 0)) || slots[i]=$(((ranks + ${#hosts[@]} - 1 - i) / ${#hosts[@]}))
    slots[i]=$((slots[i] < left ? slots[i] : left))
    left=$((left - slots[i]))
  done
  ((left == 0)) || usage "the hosts in $HOSTFILE have slots for $((ranks - left)) of $ranks ranks"
}

# Removes hosts that do not answer. Succeeds where one was lost.
ask_hosts() {
  local pids=() kept=() kept_slots=() i
  for i in "${!hosts[@]}"; do
    # shellcheck disable=SC2086  # a command with arguments
    timeout "$answer_within" $agent "${hosts[i]}" true </dev/null &>/dev/null &
    pids+=($!)
  done
  for i in "${!hosts[@]}"; do
    if wait "${pids[i]}"; then
      kept+=("${hosts[i]}")
      kept_slots+=("${slots[i]}")
    else
      say "${hosts[i]} does not answer"
      ranks=$((ranks - slots[i]))
    fi
  done
  local before=${#hosts[@]}
  hosts=("${kept[@]}")
  slots=("${kept_slots[@]}")
  ((${#hosts[@]} < before))
}

# Reads the output on its way: whether a step ended, the step resumed from, a rank's failure.
watch() {
  local line
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
      "step "*)
        [[ -e $state/stepped ]] || note_first_step
        touch "$state/stepped"
        ;;
      *"resumes from "*", step "*)
        line=${line#*resumes from *, step }
        echo "${line%%[!0-9]*}" >"$state/resumed"
        ;;
      "with errorcode "*)  # from MPI_Abort: a rank failed by itself
        line=${line//[!0-9]/}
        end_soon "$line" &
        ;;
    esac
  done
}

note_first_step() {
  if [[ -e $state/last_step ]]; then
    say "the first step ended $(seconds_since "$state/last_step") s after the last one before"
  fi
}

# Prints the seconds since the file was touched.
seconds_since() {
  awk -v now="$(date +%s.%N)" -v then="$(stat --format=%.Y "$1")" 'BEGIN {printf "%.1f", now - then}'
}

# mpirun waits forever for a host that does not even close its connections. $1: hidup's exit code.
end_soon() {
  local pid
  pid=$(<"$state/pid")
  sleep "$end_within"
  if [[ $(cat "$state/pid" 2>/dev/null) == "$pid" ]]; then
    say "mpirun does not end by itself"
    echo "$1" >"$state/code"
    kill -KILL "$pid" 2>/dev/null || true
  fi
}

# Runs the training once; $code gets its exit code.
run_once() {
  local launch=(mpirun -n "$ranks") list i
  if [[ ${#hosts[@]} -gt 0 ]]; then
    list=$(for i in "${!hosts[@]}"; do
      ((slots[i] == 0)) || printf ',%s:%s' "${hosts[i]}" "${slots[i]}"
    done)
    launch+=(--host "${list#,}")
  fi
  rm -f "$state/stepped" "$state/code"
  echo 0 >"$state/resumed"
  # A session of its own keeps Ctrl-C from mpirun: this script gets it and sends SIGUSR1.
  setsid "${launch[@]}" "$hidup" train "${train[@]}" --resume auto \
    > >(watch) 2> >(watch >&2) &
  launched=$!
  echo "$launched" >"$state/pid"
  while
    interrupted=no
    wait "$launched" 2>/dev/null && code=0 || code=$?  # hides bash's messages about signals
    [[ $interrupted == yes ]]
  do :; done
  echo none >"$state/pid"
  [[ ! -e $state/code ]] || code=$(<"$state/code")
  [[ ! -e $state/stepped ]] || mv "$state/stepped" "$state/last_step"
}

pass_on() {
  interrupted=yes
  kill -"$([[ $stopping == no ]] && echo USR1 || echo TERM)" "$launched" 2>/dev/null || true
  stopping=yes
}

if [[ -n ${HOSTFILE:-} ]]; then
  read_hosts
else
  # shellcheck source-path=SCRIPTDIR source=environment.sh
  source "$here/environment.sh"
fi
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
stopping=no
trap pass_on USR1 TERM INT
failures=0 resumed=0
while true; do
  run_once
  case $code in
    0 | 7) exit "$code" ;;
  esac
  # After the loss of a host mpirun returns any exit code, even one with another meaning.
  if [[ ${#hosts[@]} -eq 0 ]] || ! ask_hosts; then
    case $code in
      2 | 3 | 4 | 6 | 8 | 9 | 70) exit "$code" ;;
    esac
  fi
  [[ $stopping == no ]] || exit "$code"
  if [[ $ranks -eq 0 ]]; then
    say "no host answers"
    exit 5
  fi
  failures=$(($(<"$state/resumed") > resumed ? 1 : failures + 1))
  resumed=$(<"$state/resumed")
  if ((failures > limit)); then
    say "$failures starts failed without a newer checkpoint than that of step $resumed"
    exit "$code"
  fi
  say "exit code $code; starts again with $ranks rank(s)${hosts[*]:+ on ${hosts[*]}}"
done
