# What slurm-up.sh and slurm-down.sh share; sourced by them.
# shellcheck shell=bash

slurm=/run/hidup-slurm  # configuration, munge key, state and logs; gone after a reboot
export SLURM_CONF=$slurm/slurm.conf

# The process that holds the daemons' process namespace: with it, all in there ends, jobs too.
# Empty where none runs. The command line tells it from one that got its number later.
slurm_holder() {
  local pid
  pid=$(cat "$slurm/pid" 2>/dev/null) || return 0
  if [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") == "unshare "*"$slurm"* ]]; then
    echo "$pid"
  fi
}

# The last thing that slurm-up.sh writes: what has no such file was not finished.
slurm_is_up() {
  [[ -e $slurm/ready && -n $(slurm_holder) ]]
}

# Ends all jobs, then all daemons, and removes what they wrote.
remove_slurm() {
  local pid i
  pid=$(slurm_holder)
  if slurm_is_up; then
    timeout 5 squeue --noheader --format=%A | timeout 5 xargs --no-run-if-empty scancel || true
    for ((i = 0; i < 50; ++i)); do
      [[ -n $(timeout 5 squeue --noheader 2>/dev/null) ]] || break
      sleep 0.1
    done
  fi
  if [[ -n $pid ]]; then
    # The namespace's first process: it is gone when all others are, and the holder after it.
    pkill -KILL --parent "$pid" || kill -KILL "$pid" || true
    while [[ -n $(slurm_holder) ]]; do
      sleep 0.1
    done
  fi
  rm -rf "$slurm"
}
