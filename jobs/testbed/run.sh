#!/usr/bin/env bash
# Runs mpirun over the hosts of the test bed. mpirun itself is on hidup0. Needs root.
#
#   jobs/testbed/run.sh [-n RANKS] [--spread] COMMAND...
#   jobs/testbed/run.sh -n 2 build/hidup train DECK --cluster CLUSTER --out FILE
#   jobs/testbed/run.sh [-n RANKS] --keep-going DECK --cluster CLUSTER ...    jobs/keep-going.sh
#
# Without -n every host has one rank. Ranks are spread evenly and in blocks: of 4 ranks on 2 hosts, 0
# and 1 are on hidup0; with --spread 0 and 2 are, as `mpirun --map-by node` has it. Ranks of one host
# use shared memory, all others its link. Threads: hidup divides a host's cores among its ranks, unless
# OMP_NUM_THREADS or the cluster deck says otherwise. Other settings of Open MPI come from the
# environment, as OMPI_MCA_...
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"

need_root
read_settings
need_tools mpirun
ranks=$hosts
if [[ ${1:-} == -n ]]; then
  [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage "-n is '${2:-}'; it can be 1 or more"
  ranks=$2
  shift 2
fi
order=(--rank-by slot)
if [[ ${1:-} == --spread ]]; then
  order=()
  shift
fi
command=(mpirun -n "$ranks" --hostfile "$state/hostfile" --map-by node "${order[@]}" "$@")
if [[ ${1:-} == --keep-going ]]; then
  export HOSTFILE=$state/hostfile AGENT="$here/host.sh --shell"
  command=("$here/../keep-going.sh" "$ranks" "${@:2}")
elif [[ $# -eq 0 || $1 == -* ]]; then
  usage "[-n RANKS] [--spread] COMMAND... are its arguments"
fi

# shellcheck source-path=SCRIPTDIR source=../environment.sh
source "$here/../environment.sh"
export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$here/host.sh --shell" \
  OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_orte_leave_session_attached=1 \
  OMPI_MCA_oob_tcp_if_include=$network.0/24 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp \
  OMPI_MCA_btl_tcp_if_include=$network.0/24
exec "$here/host.sh" hidup0 "${command[@]}"
