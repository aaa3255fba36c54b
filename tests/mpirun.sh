#!/usr/bin/env bash
# Runs mpirun with the settings that Open MPI needs on this machine: mpirun.sh ARGUMENTS OF MPIRUN
set -euo pipefail
# shellcheck source=jobs/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../jobs/environment.sh"
exec mpirun "$@"
