#!/usr/bin/env bash
# Installs hidup's missing Debian 12 packages with apt-get, as root or through sudo. With
# nothing missing it does not call apt. On other systems it prints the packages' names and
# changes nothing.
#
#   jobs/install.sh            to build, run and plot
#   jobs/install.sh --tests    also the packages of tests/run.sh
#   jobs/install.sh --testbed  also those of jobs/testbed/: several hosts, and Slurm
#   jobs/install.sh --golden   also PyTorch, to compute the golden values anew
set -euo pipefail

packages=(
  g++ cmake ninja-build git
  openmpi-bin libopenmpi-dev libhdf5-dev libyaml-cpp-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libdnnl-dev libisal-dev libjemalloc-dev coinor-libclp-dev
  python3 python3-h5py python3-matplotlib python3-pandas
)
for argument in "$@"; do
  case $argument in
    --tests)
      packages+=(libgtest-dev libgmock-dev libboost-context-dev clang-format clang-tidy shellcheck
                 hdf5-tools)
      ;;
    --testbed) packages+=(iproute2 munge procps slurm-wlm) ;;
    --golden) packages+=(python3-torch) ;;
    *)
      echo "install.sh: unknown argument '$argument' (known: --tests, --testbed, --golden)" >&2
      exit 2
      ;;
  esac
done

system=$(source /etc/os-release 2>/dev/null; echo "${ID:-} ${VERSION_ID:-}")
if [[ $system != "debian 12" ]]; then
  echo "install.sh: this is not Debian 12, so nothing is installed; there, these packages would" >&2
  echo "install.sh: be needed: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  # shellcheck disable=SC2016  # ${Status} is dpkg-query's own
  status=$(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null || true)
  if [[ $status != "install ok installed" ]]; then
    missing+=("$package")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: not root and no sudo here; ask an administrator for" >&2
    echo "install.sh:   apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
