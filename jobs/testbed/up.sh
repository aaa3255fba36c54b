#!/usr/bin/env bash
# Makes a test bed of several hosts on this machine: network namespaces hidup0, hidup1, ...
# on one switch, with a limit on every link. Needs root, and the packages of
# jobs/install.sh --testbed.
#
#   jobs/testbed/up.sh [--hosts N] [--rate RATE] [--latency TIME] [--burst SIZE]
#   jobs/testbed/run.sh -n 2 build/hidup train ...    mpirun over the hosts
#   jobs/testbed/host.sh hidup1 ip address            any command on one host
#   jobs/testbed/rate.sh 500mbit                      other limits, also during a run
#   jobs/testbed/down.sh                              removes everything
#
# --hosts N        number of hosts, 2 by default
# --rate RATE      of each direction of each link, in tc's form: 500mbit, 2gbit (the
#                  default); none: as fast as the machine can
# --latency TIME   added on the way from one host to another: 100us, 2ms; none is the default.
#                  Needs a kernel with netem
# --burst SIZE     bytes that may pass at once after a pause, 128kb by default. Smaller bursts make
#                  the rate count more for small messages, but large ones get less than the rate:
#                  measured, 90 to 95 % of 2gbit with 128kb, 75 % with 16kb
#
# Every host has its own name, address, /dev/shm, TMPDIR and share of this machine's cores (hosts
# share a core where there are more hosts than cores), so that ranks on different hosts
# take no cores from each other. Files and processes are the machine's.
#
# Leftovers of a crash are removed first; a present test bed stays, with exit code 1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$here/common.sh"

hosts=2 rate=2gbit latency=none burst=128kb
while [[ $# -gt 0 ]]; do
  [[ $# -ge 2 ]] || usage "'$1' needs a value"
  case $1 in
    --hosts) hosts=$2 ;;
    --rate) rate=$2 ;;
    --latency) latency=$2 ;;
    --burst) burst=$2 ;;
    *) usage "unknown argument '$1'" ;;
  esac
  shift 2
done
[[ $hosts =~ ^[1-9][0-9]?$ ]] || usage "--hosts is '$hosts'; it can be 1 to 99"

# Prints the cores that this process may use, one a line.
own_cores() {
  local range
  for range in $(taskset --cpu-list --pid $$ | sed 's/.*: *//; s/,/ /g'); do
    seq "${range%-*}" "${range#*-}"
  done
}

# cores_of HOST: prints its part of the cores, for taskset. Neighbouring cores go to one host.
cores_of() {
  local first=$(($1 * ${#cores[@]} / hosts)) last=$((($1 + 1) * ${#cores[@]} / hosts))
  ((last > first)) || last=$((first + 1))
  local part=("${cores[@]:first:last-first}")
  (IFS=,; echo "${part[*]}")
}

make_switch() {
  ip netns add "$switch"
  ip -n "$switch" link add bridge mtu 9000 type bridge
  ip -n "$switch" link set bridge up
}

# make_host NUMBER: makes namespace, link to the switch, address and folder. Packets are large, as on
# clusters: the kernel limits few large packets more exactly than many small ones.
make_host() {
  local name=hidup$1 port=port$1 address=$network.$(($1 + 1))
  ip netns add "$name"
  ip link add eth0 netns "$name" mtu 9000 type veth peer name "$port" netns "$switch" mtu 9000
  ip -n "$switch" link set "$port" master bridge up
  ip -n "$name" address add "$address/24" dev eth0
  ip -n "$name" link set lo up
  ip -n "$name" link set eth0 up
  mkdir "$state/$name"
  cores_of "$1" >"$state/$name.cores"
  echo "$address $name" >>"$state/hosts"
  echo "$name" >>"$state/hostfile"
  echo "testbed: $name at $address, cores $(<"$state/$name.cores")"
}

need_root
need_tools ip tc flock unshare taskset
lock
if is_up; then
  die "a test bed is up already; jobs/testbed/down.sh removes it"
fi
remove_all
trap remove_all EXIT  # if a step fails before all is complete
mapfile -t cores < <(own_cores)
mkdir -m 755 "$state"
echo "127.0.0.1 localhost" >"$state/hosts"
make_switch
for ((i = 0; i < hosts; ++i)); do
  make_host "$i"
done
limit_links
write_settings
trap - EXIT
describe_links
