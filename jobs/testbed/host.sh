#!/usr/bin/env bash
# Runs a command on one host of the test bed: in its network, under its name, on its cores, with
# its own TMPDIR and a fresh /dev/shm. Needs root.
#
#   jobs/testbed/host.sh HOST COMMAND...
#   jobs/testbed/host.sh hidup1 tc -s qdisc show dev eth0
#   jobs/testbed/host.sh --shell HOST TEXT...    works like ssh: a shell reads TEXT, and a host whose
#                                                link is down does not answer. mpirun starts its
#                                                daemons this way (run.sh)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"

shell=no
if [[ ${1:-} == --shell ]]; then
  shell=yes
  shift
fi
[[ $# -ge 2 ]] || usage "HOST COMMAND... are its arguments"
host=$1
command=("${@:2}")
if [[ $shell == yes ]]; then
  command=(bash -c "${command[*]}")
fi
need_root
read_settings
[[ -e $state/$host.cores ]] || die "no host '$host'; there are hidup0 to hidup$((hosts - 1))"

if [[ $shell == yes && $(ip -n "$host" -oneline link show eth0) != *"state UP"* ]]; then
  echo "testbed: the link of $host is down" >&2
  exit 255  # as ssh
fi

# ip netns exec makes the mounts private to the command. No process stays in between: a signal
# to this one reaches the command.
# shellcheck disable=SC2016  # expanded inside
exec ip netns exec "$host" unshare --uts bash -euc '
  host=$1 state=$2
  hostname "$host"
  mount --bind "$state/hosts" /etc/hosts
  mount -t tmpfs hidup-shm /dev/shm
  export TMPDIR=$state/$host
  exec taskset --cpu-list "$(<"$state/$host.cores")" "${@:3}"' host.sh "$host" "$state" "${command[@]}"
