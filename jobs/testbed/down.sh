#!/usr/bin/env bash
# Removes the test bed of jobs/testbed/up.sh, and ends processes on its hosts: first with SIGTERM, after
# five seconds with SIGKILL. Also removes leftovers of a crash, and succeeds where nothing is left.
# Needs root.
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
