# Sets Open MPI's variables for one machine: a laptop, a container or a workstation. quickstart.sh and
# tests/run.sh source it. Batch jobs do not: there, more ranks than slots are an error that should be
# reported, and Slurm places ranks.
# shellcheck shell=bash

# mpirun refuses to run as root, the only user of most containers.
if [[ $(id -u) -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# A slot is a physical core: without this, two ranks would be refused on one core, even with two hardware
# threads.
export OMPI_MCA_rmaps_base_oversubscribe=1

# By default mpirun binds one or two ranks to one core each, with all their threads.
export OMPI_MCA_hwloc_base_binding_policy=none

# mpirun needs ssh or rsh to start ranks on other hosts, and refuses to run without them. It runs if the agent
# is set to none.
if [[ -z ${OMPI_MCA_plm_rsh_agent:-} ]] && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
  export OMPI_MCA_plm_rsh_agent=
fi

# Ranks copy directly out of each other's memory. Where a container's seccomp filter forbids that, every large
# message would print an error before it falls back. Shared memory avoids this, but is several times slower
# elsewhere.
if command -v python3 >/dev/null && ! python3 -c '
import ctypes, os, sys
sys.exit(ctypes.CDLL(None).process_vm_readv(os.getpid(), None, 0, None, 0, 0) != 0)' 2>/dev/null; then
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
fi

# mpirun writes some files of a job to the temporary folder, and waits forever where it is full.
hidup_free=$(df --output=avail -k "${TMPDIR:-/tmp}" 2>/dev/null | tail -n 1)
if [[ -n $hidup_free && $hidup_free -lt 8256 ]]; then
  echo "environment.sh: ${TMPDIR:-/tmp} (TMPDIR) has $hidup_free KiB free; mpirun needs 8256 there" >&2
fi
unset hidup_free
