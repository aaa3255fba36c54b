#!/usr/bin/env bash
# Starts a real Slurm of one node, this machine: munged, slurmctld and slurmd, with a separate
# configuration, munge key, state and logs in /run/hidup-slurm. It does not disturb another Slurm on
# this machine. Needs root, and the packages of jobs/install.sh --testbed.
#
#   jobs/testbed/slurm-up.sh
#   export SLURM_CONF=/run/hidup-slurm/slurm.conf     finds this Slurm
#   sbatch jobs/train.sbatch                          and any other command of Slurm
#   jobs/testbed/slurm-down.sh                        ends its jobs and removes everything
#
# Every hardware thread counts as a core, four at least: two jobs of two ranks run at once. Under
# root, jobs that use mpirun need the variables OMPI_ALLOW_RUN_AS_ROOT and
# OMPI_ALLOW_RUN_AS_ROOT_CONFIRM set to 1.
#
# Leftovers of a crash are removed first; a running Slurm stays, with exit code 1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"
# shellcheck source-path=SCRIPTDIR source=slurm-common.sh
source "$here/slurm-common.sh"

node=$(hostname -s)
cores=$(($(nproc) > 4 ? $(nproc) : 4))
memory=$(awk '/^MemTotal/ {print int($2 / 1024)}' /proc/meminfo)

# The usual ports, 6817 and 6818, are left to another Slurm. Processes are found by their parents (linuxproc),
# and ranks are not bound to cores (task/none): neither needs cgroups. A requeued job waits for cred_expire,
# by default two minutes. Job ids, which train.sbatch puts in the names of its files, are new each time.
write_configuration() {
  cat >"$SLURM_CONF" <<END
ClusterName=hidup
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
StateSaveLocation=$slurm/slurmctld
SlurmdSpoolDir=$slurm/slurmd
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
SlurmctldLogFile=$slurm/log/slurmctld.log
SlurmdLogFile=$slurm/log/slurmd.log
FirstJobId=$(($(date +%s) % 10000000))
KillWait=5
NodeName=$node NodeAddr=127.0.0.1 Sockets=1 CoresPerSocket=$cores ThreadsPerCore=1 RealMemory=$memory
PartitionName=main Nodes=$node Default=YES MaxTime=INFINITE State=UP
END
}

make_folder() {
  mkdir -m 755 "$slurm" "$slurm/slurmctld" "$slurm/slurmd" "$slurm/log"
  (umask 077; head --bytes=1024 /dev/urandom >"$slurm/munge.key")
  write_configuration
}

# Daemons and jobs live in a process namespace: nothing in it outlives its first process, which ends when any
# daemon does.
start_daemons() {
  # shellcheck disable=SC2016  # expanded inside
  local first='
    slurm=$1
    munged --foreground --key-file="$slurm/munge.key" --socket="$slurm/munge.socket" \
      --pid-file="$slurm/munged.pid" --log-file="$slurm/log/munged.log" \
      --seed-file="$slurm/munged.seed" &
    while [[ ! -e $slurm/munge.socket && -n $(jobs -r) ]]; do sleep 0.05; done
    slurmctld -D &
    slurmd -D &
    wait -n'
  # shellcheck disable=SC2016
  setsid bash -c 'echo $$ >"$1/pid" && exec unshare --pid --fork --kill-child --mount \
    --propagation slave --mount-proc bash -c "$2" slurm "$1"' slurm "$slurm" "$first" \
    </dev/null &>"$slurm/log/output" 9>&- &
  local i
  for ((i = 0; i < 100; ++i)); do
    [[ -z $(slurm_holder) ]] || return 0
    sleep 0.05
  done
}

wait_until_idle() {
  local deadline=$((SECONDS + 30))
  while ((SECONDS < deadline)) && [[ -n $(slurm_holder) ]]; do
    if [[ $(timeout 5 sinfo --noheader --format=%T 2>/dev/null) == idle ]]; then
      return
    fi
    sleep 0.2
  done
  tail --lines=5 "$slurm"/log/* >&2
  die "Slurm does not come up; the ends of its logs are above"
}

[[ $# -eq 0 ]] || usage "unknown argument '$1'"
need_root
need_tools munged slurmctld slurmd sinfo flock unshare setsid pkill
lock
if slurm_is_up; then
  die "this Slurm is up already; jobs/testbed/slurm-down.sh removes it"
fi
remove_slurm
trap remove_slurm EXIT  # if a step fails before all is complete
make_folder
start_daemons
wait_until_idle
touch "$slurm/ready"
trap - EXIT
echo "testbed: Slurm with node $node, $cores cores, $memory MiB; logs in $slurm/log"
echo "testbed: export SLURM_CONF=$SLURM_CONF"
