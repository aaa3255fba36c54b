# Shared by the scripts of the test bed, which source it: names, addresses, and limits of links.
# shellcheck shell=bash disable=SC2034,SC2154  # variables are set and used where it is sourced

state=/run/hidup-testbed  # settings, hosts and TMPDIRs; gone after a reboot, as namespaces are
switch=hidup-switch  # a separate namespace: nothing shows among the machine's links
network=198.18.0  # for measurements of networks (RFC 2544): no real network has it

die() {
  echo "testbed: $*" >&2
  exit 1
}

usage() {
  echo "testbed: $* (see the head of $0)" >&2
  exit 2
}

need_root() {
  if [[ $(id -u) -ne 0 ]]; then
    die "root is needed, for namespaces, limits on links and daemons: sudo $0"
  fi
}

need_tools() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null ||
      die "'$tool' is missing; jobs/install.sh --testbed installs what the test bed needs"
  done
}

# Only one script at a time changes the test bed. The lock ends with the process in any case.
lock() {
  exec 9</run
  flock --timeout 30 9 || die "another script of the test bed is at work for 30 s"
}

# up.sh writes this file last: without it a test bed is unfinished.
is_up() {
  [[ -e $state/settings ]]
}

# Reads hosts, rate, latency and burst of the present test bed.
read_settings() {
  is_up || die "no test bed is up; jobs/testbed/up.sh makes one"
  # shellcheck disable=SC1091  # written by write_settings
  source "$state/settings"
}

write_settings() {
  printf '%s=%q\n' hosts "$hosts" rate "$rate" latency "$latency" burst "$burst" \
    >"$state/settings.new"
  mv "$state/settings.new" "$state/settings"
}

# limit NAMESPACE DEVICE DELAY: limits traffic from NAMESPACE through DEVICE to $rate, $burst and DELAY.
limit() {
  local device=(-n "$1" qdisc add dev "$2") delay=$3 parent=(root)
  tc -n "$1" qdisc del dev "$2" root 2>/dev/null || true  # none yet
  if [[ $rate != none ]]; then
    # latency is the largest queueing time, after which packets are lost. Loss costs TCP 200 ms.
    tc "${device[@]}" root handle 1: tbf rate "$rate" burst "$burst" latency 100ms ||
      die "tc refuses rate '$rate' with burst '$burst'; examples: 500mbit, 2gbit; 64kb"
    parent=(parent 1:1)
  fi
  if [[ $delay != none ]]; then
    tc "${device[@]}" "${parent[@]}" netem delay "$delay" limit 100000 ||
      die "tc refuses latency '$delay' (examples: 100us, 2ms), or this kernel has no netem" \
        "(CONFIG_NET_SCH_NETEM), which latencies need"
  fi
}

# Applies rate, latency and burst to both directions of every link. The latency is added once on the way from
# host to host, at the switch's port to the receiver.
limit_links() {
  local i
  for ((i = 0; i < hosts; ++i)); do
    limit "hidup$i" eth0 none
    limit "$switch" "port$i" "$latency"
  done
}

describe_links() {
  echo "testbed: every link, each way: rate $rate, burst $burst; added latency: $latency"
}

# Prints the namespaces of a test bed, finished or not.
namespaces() {
  ip netns list | awk '{print $1}' | grep -xE "hidup[0-9]+|$switch" || true
}

processes() {
  local namespace
  for namespace in $(namespaces); do
    ip netns pids "$namespace" 2>/dev/null || true  # no namespace yet: a crash in between
  done
}

# end_processes SIGNAL: signals all processes on the hosts; succeeds if none is left after some seconds.
end_processes() {
  local pids i
  mapfile -t pids < <(processes)
  if [[ ${#pids[@]} -eq 0 ]]; then
    return 0
  fi
  kill -"$1" "${pids[@]}" 2>/dev/null || true  # some end by themselves
  for ((i = 0; i < 50; ++i)); do
    if [[ -z $(processes) ]]; then
      return 0
    fi
    sleep 0.1
  done
  return 1
}

# Removes everything that up.sh makes, even an unfinished test bed.
remove_all() {
  rm -f "$state/settings"  # from here on the test bed is a leftover
  end_processes TERM || end_processes KILL || die "these processes do not end:" "$(processes)"
  local namespace
  for namespace in $(namespaces); do
    ip netns delete "$namespace"
  done
  rm -rf "$state"
}
