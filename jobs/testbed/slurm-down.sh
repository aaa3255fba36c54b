#!/usr/bin/env bash
# Removes the Slurm that jobs/testbed/slurm-up.sh started: cancels its jobs and gives them five
# seconds, then ends all remaining daemons and jobs. Also removes leftovers of a crash, and succeeds
# where nothing is left. Needs root.
#
#   jobs/testbed/slurm-down.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"
# shellcheck source-path=SCRIPTDIR source=slurm-common.sh
source "$here/slurm-common.sh"

[[ $# -eq 0 ]] || usage "unknown argument '$1'"
need_root
need_tools flock pkill
lock
remove_slurm
