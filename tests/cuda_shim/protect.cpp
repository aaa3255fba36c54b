#include "protect.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace cuda_shim {

bool protects() {
  static const bool wanted = std::getenv("CUDA_SHIM_PROTECT") != nullptr;
  return wanted;
}

size_t block_alignment() {
  return protects() ? static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 256;
}

size_t block_bytes(size_t bytes) {
  const size_t alignment = block_alignment();
  return (bytes + alignment - 1) / alignment * alignment;
}

void set_block_reachable(void* block, size_t bytes, bool reachable) {
  if (mprotect(block, bytes, reachable ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    std::perror("cuda_shim: mprotect");
    std::abort();
  }
}

}  // namespace cuda_shim
