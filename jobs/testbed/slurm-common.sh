# Shared by slurm-up.sh and slurm-down.sh, which source it.
# shellcheck shell=bash

slurm=/run/hidup-slurm  # configuration, munge key, state and logs; gone after a reboot
export SLURM_CONF=$slurm/slurm.conf

# Prints the process that holds the daemons' process namespace, whose end ends everything in it, even jobs.
# Prints nothing where none runs. The command line distinguishes it from a later process with its number.
slurm_holder() {
  local pid
  pid=$(cat "$slurm/pid" 2>/dev/null) || return 0
  if [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") == "unshare "*"$slurm"* ]]; then
    echo "$pid"
  fi
}

# slurm-up.sh writes this file last: without it a Slurm is unfinished.
slurm_is_up() {
  [[ -e $slurm/ready && -n $(slurm_holder) ]]
}

# Ends all jobs, then all daemons, and removes their files.
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
    # The namespace's first process ends after all others in it, and its holder after it.
    pkill -KILL --parent "$pid" || kill -KILL "$pid" || true
    while [[ -n $(slurm_holder) ]]; do
      sleep 0.1
    done
  fi
  rm -rf "$slurm"
}
