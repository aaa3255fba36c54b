#!/usr/bin/env bash
# Runs jobs/debs.sh and the configure step of jobs/gpu.sh on a machine that has a compiler, CMake, Ninja,
# Python and nvcc, but none of our libraries. In a mount namespace this machine becomes such a one: files of
# Debian's packages are hidden except these tools and their dependencies, and NCCL and cuBLASLt lie in
# PyTorch's places. A program that links every library (bare_machine/) is built there, and two ranks run it.
#
# Exits with 77 and the reason where this is impossible: it needs root, nvcc, overlays and Debian's packages.
set -euo pipefail

tools=(g++ cmake ninja-build python3-minimal)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=$PATH:/usr/local/cuda/bin
unset CMAKE_{C,CXX,CUDA}_COMPILER_LAUNCHER  # no ccache there

skip() {
  echo "bare_machine.sh: skipped: $1"
  exit 77
}
fail() {
  echo "bare_machine.sh: $1" >&2
  exit 1
}

# Prints the installed packages except the tools, their dependencies, and Debian's essential ones.
others() {
  # shellcheck disable=SC2016  # the format's own variables
  {
    dpkg-query --show --showformat='${Essential} ${Priority} ${Package}\n' |
      sed -nE 's/^(yes .*|no required) (.*)/\2/p'
    printf '%s\n' "${tools[@]}"
  } | xargs apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts \
    --no-breaks --no-replaces --no-enhances | sed -nE 's/^([a-z0-9][^ :]*).*/\1/p' | sort -u >"$folder/kept"
  # shellcheck disable=SC2016
  dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\n' | sed -n 's/^ii *//p' | sort -u |
    grep -vxFf "$folder/kept"
}

# Lets FOLDER's files be changed and removed from here on, in this namespace only.
overlay() { # FOLDER
  local own=$folder/overlay$1
  mkdir -p "$own/upper" "$own/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$own/upper,workdir=$own/work" overlay "$1"
}

# Moves a library of the toolkit, and its headers, to their place in Python's packages.
move_to_python() { # PACKAGE LIBRARY HEADER...
  local package=$folder/python/nvidia/$1 name file
  mkdir -p "$package/lib" "$package/include"
  for name in "${@:2}"; do
    file=$(find -L "$toolkit"/{lib64,lib,include} /usr/{lib/x86_64-linux-gnu,include} -name "$name" -print -quit)
    [[ -n $file ]] || fail "no $name is installed"
    if [[ $name == *.h ]]; then
      cp "$file" "$package/include/"
    else  # too large for a copy
      touch "$package/lib/$name"
      mount --bind "$(realpath "$file")" "$package/lib/$name"
    fi
  done
}

make_bare() {
  local package
  mount -t tmpfs tmpfs "$folder/overlay"
  mapfile -t packages < <(others)
  echo "bare_machine.sh: hides $(wc -w <<<"${packages[*]}") packages, keeps $(wc -l <"$folder/kept")"
  dpkg-query --listfiles "${packages[@]}" | grep -E '^/(usr|lib|bin|sbin|etc)/' >"$folder/hidden"

  toolkit=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
  move_to_python nccl libnccl.so.2 nccl.h
  package=$(basename "$(find -L "$toolkit/lib64/" -name 'libcublasLt.so.[0-9][0-9]')")
  move_to_python "cu${package##*.}" "$package" cublasLt.h cublas_api.h
  overlay /usr
  overlay /etc
  xargs -d '\n' rm -f <"$folder/hidden" 2>/dev/null || true  # folders stay
  find -L "$toolkit/" \( -name 'libnccl*' -o -name 'libcublas*' -o -name 'nccl*.h' -o -name 'cublas*.h' \) \
    -exec rm -f {} +
  /sbin/ldconfig
}

# Checks paths that CMake found in build folder $1: each that matches must lie in the prefix.
assert_from_prefix() { # BUILD VARIABLE...
  local build=$1 variable found
  for variable in "${@:2}"; do
    found=$(sed -n "s/^$variable:[A-Z]*=//p" "$build/CMakeCache.txt")
    [[ $found == "$prefix/"* ]] || fail "$variable of $build is '$found', and not in $prefix"
  done
}

rehearse() {
  local libraries=(MPI_mpi_LIBRARY MPI_C_HEADER_DIR yaml-cpp_DIR fmt_DIR CLI11_DIR nlohmann_json_DIR
                   ISAL_LIBRARY ISAL_INCLUDE_DIR JEMALLOC_LIBRARY HDF5_hdf5_LIBRARY_RELEASE)
  local prefix=$folder/source/out/prefix build
  export PYTHONPATH=$folder/python
  PATH=$folder/fakes:/usr/sbin:/usr/bin:/sbin:/bin:$toolkit/bin
  cd "$folder/source"
  if command -v mpirun || [[ -e /usr/include/fmt/core.h ]]; then
    fail "libraries are not hidden"
  fi
  HIDUP_PREFIX=$folder/prefix.tar.gz HIDUP_REPORT=$folder/report jobs/gpu.sh configure || {
    cat "$folder/report/build.log"
    fail "gpu.sh does not configure"
  }
  assert_from_prefix build "${libraries[@]}" DNNL_LIBRARY DNNL_INCLUDE_DIR
  assert_from_prefix build-cuda "${libraries[@]}" GTest_DIR

  # shellcheck disable=SC1091  # jobs/debs.sh wrote it
  source "$prefix/environment.sh"
  # shellcheck source=jobs/environment.sh
  source jobs/environment.sh
  build=$folder/linked
  cmake -G Ninja -S tests/runs/bare_machine -B "$build" -DCMAKE_BUILD_TYPE=Debug
  cmake --build "$build"
  GTEST_COLOR=no mpirun -n 2 "$build/linked" | tee "$folder/output"
  grep -qx "MPI: 2 ranks, threads" "$folder/output"
  grep -q "NCCL: .* (no error)" "$folder/output"
}

if [[ ${1:-} == inside ]]; then
  folder=$2
  make_bare
  rehearse
  exit 0
fi

[[ $(id -u) == 0 ]] || skip "only root mounts"
command -v nvcc >/dev/null || skip "no nvcc in PATH, nor in /usr/local/cuda/bin"
command -v apt-get >/dev/null || skip "no apt-get"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder"/{overlay,fakes,source,first}
unshare --mount bash -c "mount -t tmpfs tmpfs '$folder/overlay' && cd '$folder/overlay' && mkdir u w &&
  mount -t overlay -o lowerdir=/usr,upperdir=u,workdir=w overlay /usr" || skip "no overlay over /usr"
(cd "$folder/first" && apt-get -o APT::Sandbox::User=root download -qq libcli11-dev) ||
  skip "apt-get downloads nothing"

printf '#!/bin/sh\necho 9.0\n' >"$folder/fakes/nvidia-smi"
chmod +x "$folder/fakes/nvidia-smi"
tar -C "$root" --exclude='./build*' --exclude=./out --exclude=./.git -c . | tar -C "$folder/source" -x
"$root/jobs/debs.sh" "$folder/prefix"
unshare --mount "${BASH_SOURCE[0]}" inside "$folder"
