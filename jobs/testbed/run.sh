#!/usr/bin/env bash
# mpirun over the hosts of the test bed. mpirun itself is on hidup0. Needs root.
#
#   jobs/testbed/run.sh [-n RANKS] COMMAND...
#   jobs/testbed/run.sh -n 2 build/hidup train DECK --cluster CLUSTER --out FILE
#
# Without -n one rank per host. Ranks are spread evenly and in blocks: of 4 ranks on 2 hosts, 0
# and 1 are on hidup0. Ranks of one host talk through shared memory, all others over its link.
# Threads: hidup divides a host's cores among the ranks of that host, unless OMP_NUM_THREADS or the
# cluster deck says otherwise. Other settings of Open MPI come from the environment, as OMPI_MCA_...
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
[[ $# -ge 1 && $1 != -* ]] || usage "[-n RANKS] COMMAND... are its arguments"

# shellcheck source-path=SCRIPTDIR source=../environment.sh
source "$here/../environment.sh"
exec "$here/host.sh" hidup0 mpirun -n "$ranks" \
  --hostfile "$state/hostfile" --map-by node --rank-by slot \
  --mca plm rsh --mca plm_rsh_agent "$here/host.sh --shell" --mca plm_rsh_no_tree_spawn 1 \
  --mca orte_leave_session_attached 1 --mca oob_tcp_if_include "$network.0/24" \
  --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include "$network.0/24" \
  "$@"
