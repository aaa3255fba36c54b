#!/usr/bin/env bash
# Gathers hidup's dependencies for a machine where nothing can be installed or fetched: Debian 12
# packages, downloaded with apt-get (no root needed) and unpacked in a folder, without documentation
# and static libraries. Compiler, CMake, Ninja, Python and CUDA must be on that machine.
#
#   jobs/debs.sh FOLDER     makes FOLDER and FOLDER.tar.gz, a smaller copy
#
# There, HIDUP_PREFIX=FOLDER (or FOLDER.tar.gz) jobs/gpu.sh does the rest; by hand,
# `source FOLDER/environment.sh` and the usual commands. The machine must be an x86-64 Linux with
# glibc 2.36 or later.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: jobs/debs.sh FOLDER" >&2
  exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
if [[ -n $(ls -A "$prefix") ]]; then
  echo "debs.sh: $prefix is not empty" >&2
  exit 2
fi

# Packages that are linked or included, with the libraries that they need, except those of every machine with
# a compiler. Open MPI's network drivers are left out, since this is for one machine.
wanted=(openmpi-bin libopenmpi-dev libhdf5-dev libyaml-cpp-dev libfmt-dev libcli11-dev
        nlohmann-json3-dev libdnnl-dev libisal-dev libjemalloc-dev coinor-libclp-dev
        coinor-libcoinutils-dev libgtest-dev libgmock-dev)
ours='^((coinor-)?lib.*[0-9].*|openmpi-common|zlib1g|ocl-icd-libopencl1)$'
not_ours='(-dev|-doc)$|^lib(c6|gcc|gomp|stdc|crypt1|perl|selinux|pam|db|llvm|curl[34]-)'
packages=()
pending=("${wanted[@]}")
while [[ ${#pending[@]} -gt 0 ]]; do
  packages+=("${pending[@]}")
  mapfile -t pending < <(
    apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
      --no-enhances "${pending[@]}" |
      sed -n 's/^ *|\?\(Pre\)\?Depends: //p' | grep -E "$ours" | grep -Ev "$not_ours" | sort -u |
      grep -vxF "$(printf '%s\n' "${packages[@]}")" || true)
done

downloads=$(mktemp -d)
trap 'rm -r "$downloads"' EXIT
(cd "$downloads" && apt-get -o APT::Sandbox::User=root download -qq "${packages[@]}")
for package in "$downloads"/*.deb; do
  dpkg-deb --extract "$package" "$prefix"
done
# Packages use either layout of the file system: some have /lib, some /usr/lib.
if [[ -d $prefix/lib ]]; then
  cp -a "$prefix/lib/." "$prefix/usr/lib/"
  rm -r "${prefix:?}/lib"
fi

libraries=$prefix/usr/lib/x86_64-linux-gnu
# Debian creates these names during the installation.
for name in blas lapack; do
  ln -sf "$name/lib$name.so.3" "$libraries/lib$name.so.3"
done
rm -rf "$prefix"/usr/{src,share/{doc,man,lintian,bug,info,locale,java}} "$libraries"/{fortran,ucx,libibverbs,rsocket,sasl2,engines-3}
rm -f "$prefix"/usr/bin/{osh*,shmem*,mpif*,*java*,orte-*,ompi-*}
rm -f "$libraries"/openmpi/lib/openmpi3/mca_*{ofi,openib,psm,psm2,ucx,usnic,oshmem,spml}*
find "$prefix" -name '*.a' ! -name 'libgtest*.a' ! -name 'libgmock*.a' -delete

# Libraries for other languages and for networks are removed, because no remaining file needs them.
mapfile -t pending < <(find "$prefix/usr/bin" -type f
                       find "$libraries" -mindepth 2 -type f -name '*.so*'
                       realpath "$libraries"/lib{mpi,hdf5_serial,yaml-cpp,fmt,dnnl,isal,jemalloc,Clp}.so.[0-9]*)
declare -A kept=()
while [[ ${#pending[@]} -gt 0 ]]; do
  for file in "${pending[@]}"; do
    kept[$file]=1
  done
  names=$({ LC_ALL=C objdump -p "${pending[@]}" 2>/dev/null || true; } | sed -n "s/^ *NEEDED *//p" | sort -u)
  pending=()
  for name in $names; do
    if [[ -e $libraries/$name ]]; then
      file=$(realpath "$libraries/$name")
      [[ -n ${kept[$file]:-} ]] || pending+=("$file")
    fi
  done
done
find "$libraries" -maxdepth 1 -type f -name '*.so*' | while read -r file; do
  [[ -n ${kept[$file]:-} ]] || rm "$file"
done
find "$prefix" -xtype l -delete

# Debian creates these names during the installation.
for name in mpirun mpiexec mpicc; do
  ln -sf "$name.openmpi" "$prefix/usr/bin/$name"
done

cat >"$prefix/environment.sh" <<'END'
# Sourced: headers, libraries and programs that stand here are found before those that are
# installed. Of libraries that others need only those that the machine lacks, for its own programs
# may need newer ones.
# shellcheck shell=bash
prefix=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libraries=$prefix/usr/lib/x86_64-linux-gnu
mkdir -p "$prefix/missing"
installed=$(PATH=$PATH:/sbin ldconfig -p | sed -n 's/^\t\([^ ]*\) (.*x86-64.*/\1/p')
for file in "$libraries"/*.so.* "$libraries"/pmix2/lib/*.so.*; do
  if ! grep -qxF "${file##*/}" <<<"$installed"; then
    ln -sf "$file" "$prefix/missing/"
  fi
done
export OPAL_PREFIX=$prefix/usr PMIX_MCA_pcompress_base_silence_warning=1
export PATH=$prefix/usr/bin:$PATH
export CMAKE_PREFIX_PATH=$prefix/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
export HDF5_ROOT=$libraries/hdf5/serial
export LD_LIBRARY_PATH=$prefix/missing${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset prefix libraries installed file
END
tar -C "$prefix" -czf "$prefix.tar.gz" .
echo "debs.sh: ${#packages[@]} packages, $(du -sm "$prefix" | cut -f1) MiB in $prefix;" \
  "$prefix.tar.gz has $(du -m "$prefix.tar.gz" | cut -f1) MiB"
