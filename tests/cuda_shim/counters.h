// Counts memory accesses of kernels, in programs whose kernels are compiled with -fsanitize=thread
// and that link hooks.cpp instead of the sanitizer's library.
//
// Every access of a kernel to device memory or to shared memory is counted. An access that is not
// aligned to its size, or a race in shared memory, ends the kernel with a fault. Other memory
// (stacks, arguments, the host's) is ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "requests.h"

namespace cuda_shim {

struct KernelCounts {
  const void* kernel = nullptr;
  int64_t launches = 0;
  GlobalCounts read;
  GlobalCounts written;
  SharedCounts shared;
};

// Returns the counts of all launches since the last call that ended without a fault, a row per
// kernel. Wait for the streams first.
std::vector<KernelCounts> take_counts();

// A place in the code: the compiled function, and its line in the source.
struct CodePlace {
  std::string function;
  std::string file;
  int line = 0;
};
// Returns places found by the program addr2line; empty ones where it finds none. Takes a second.
std::vector<CodePlace> places_of(const std::vector<const void*>& code);

}  // namespace cuda_shim
