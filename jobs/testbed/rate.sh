#!/usr/bin/env bash
# Changes the limits of all links of the present test bed, even during a run. Packets in a link's queue
# at that moment are lost, and TCP sends them again. Needs root.
#
#   jobs/testbed/rate.sh RATE [LATENCY] [BURST]     as in jobs/testbed/up.sh
#   jobs/testbed/rate.sh 500mbit
#   jobs/testbed/rate.sh none                       as fast as the machine can
#
# Without LATENCY or BURST the present one stays.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"

[[ $# -ge 1 && $# -le 3 ]] || usage "RATE [LATENCY] [BURST] are its arguments"
need_root
need_tools tc flock
lock
read_settings
# If one link is refused, those changed before get their limits back.
trap 'read_settings; limit_links' EXIT
rate=$1
latency=${2:-$latency}
burst=${3:-$burst}
limit_links
trap - EXIT
write_settings
describe_links
