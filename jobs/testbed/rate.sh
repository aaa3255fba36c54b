#!/usr/bin/env bash
# Gives all links of the test bed that is up other limits, also while something runs on it.
# What lies in a link's queue at that moment is lost, and TCP sends it again. Needs root.
#
#   jobs/testbed/rate.sh RATE [LATENCY] [BURST]     as in jobs/testbed/up.sh
#   jobs/testbed/rate.sh 500mbit
#   jobs/testbed/rate.sh none                       as fast as the machine can
#
# A latency or burst that is not given stays as it is.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"

[[ $# -ge 1 && $# -le 3 ]] || usage "RATE [LATENCY] [BURST] are its arguments"
need_root
need_tools tc flock
lock
read_settings
# Links that were changed before one was refused get their limits back.
trap 'read_settings; limit_links' EXIT
rate=$1
latency=${2:-$latency}
burst=${3:-$burst}
limit_links
trap - EXIT
write_settings
describe_links
