// What kernels do with memory: in programs whose kernels are compiled with -fsanitize=thread and
// that link hooks.cpp instead of the sanitizer's library.
//
// Every access of a kernel to memory of the device or to shared memory is counted. An access that
// is not aligned to its size, and a race in shared memory, end the kernel with a fault. The rest
// (stacks, arguments, what the host has) is passed over.
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

// Of all launches since the last call that ended without a fault; a row for each kernel. Wait for
// the streams before.
std::vector<KernelCounts> take_counts();

// A place in the code: the function that it was compiled for, and where it is written.
struct CodePlace {
  std::string function;
  std::string file;
  int line = 0;
};
// By the program addr2line; empty where it does not know. Takes a second.
std::vector<CodePlace> places_of(const std::vector<const void*>& code);

}  // namespace cuda_shim
