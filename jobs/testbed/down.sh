#!/usr/bin/env bash
# Removes the test bed that jobs/testbed/up.sh made, and ends what still runs on its hosts: first
# with SIGTERM, after five seconds with SIGKILL. Removes also what a crash left, and is content
# where there is nothing. Needs root.
#
#   jobs/testbed/down.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"

[[ $# -eq 0 ]] || usage "unknown argument '$1'"
need_root
need_tools ip flock
lock
remove_all
