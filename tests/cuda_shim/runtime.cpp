// Errors, the device and its memory.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "cuda_runtime.h"
#include "cuda_shim/fault.h"
#include "state.h"
#include "stream.h"

namespace cuda_shim {
namespace {

constexpr size_t kGuard = 256;  // bytes before and after an allocation; also its alignment
constexpr unsigned char kGuardByte = 0xA5;
// NaN as float and as double, and no index of anything.
constexpr uint32_t kPoison = 0x7FFADBAD;

thread_local cudaError_t last_error = cudaSuccess;

struct Process {
  std::mutex mutex;
  std::atomic<bool> failed = false;
  std::string fault;
  std::map<void*, size_t> allocations;
};

// A process that ends with a fault that nobody saw has failed.
void fail_at_exit();

// Never destroyed: threads may end after main() has.
Process& process() {
  static auto* state = [] {
    std::atexit(fail_at_exit);
    return new Process;
  }();
  return *state;
}

void fail_at_exit() {
  if (process().failed) {
    std::fprintf(stderr, "cuda_shim: ends with the fault: %s\n", process().fault.c_str());
    std::_Exit(1);
  }
}

size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

bool intact(const unsigned char* guard) {
  return std::all_of(guard, guard + kGuard, [](unsigned char b) { return b == kGuardByte; });
}

}  // namespace

cudaError_t set_error(cudaError_t error) {
  last_error = error;
  return error;
}

bool fault_set() {
  return process().failed.load();
}

void set_fault(const std::string& text) {
  const std::lock_guard lock(process().mutex);
  if (!process().failed) {
    std::fprintf(stderr, "cuda_shim: %s\n", text.c_str());
    process().fault = text;
    process().failed = true;
  }
}

bool reachable(const void* address) {
  if (address == nullptr) {
    return true;
  }
  const std::lock_guard lock(process().mutex);
  const auto after = process().allocations.upper_bound(const_cast<void*>(address));
  if (after == process().allocations.begin()) {
    return false;
  }
  const auto& [begin, bytes] = *std::prev(after);
  return static_cast<const char*>(address) <= static_cast<const char*>(begin) + bytes;
}

cudaError_t refuse_argument() {
  std::fprintf(stderr, "cuda_shim: an argument of a kernel points to memory of the host\n");
  return set_error(cudaErrorInvalidValue);
}

std::string fault() {
  const std::lock_guard lock(process().mutex);
  return process().fault;
}

CudaShimStream& stream_or_default(cudaStream_t stream) {
  static auto* null_stream = new CudaShimStream;
  return stream == nullptr ? *null_stream : *stream;
}

}  // namespace cuda_shim

using cuda_shim::process;
using cuda_shim::set_error;

cudaError_t cudaPeekAtLastError() {
  return cuda_shim::fault_set() ? cudaErrorLaunchFailure : cuda_shim::last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  cuda_shim::last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : set_error(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) {
    return set_error(cudaErrorInvalidDevice);
  }
  *properties = {.totalGlobalMem = cuda_shim::physical_memory(),
                 .sharedMemPerBlock = 48 * 1024,
                 .warpSize = 32,
                 .maxThreadsPerBlock = 1024,
                 .major = 8,
                 .minor = 0,
                 .multiProcessorCount = 1};
  std::strncpy(properties->name, "CUDA shim on the CPU", sizeof(properties->name) - 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) {
    return set_error(cudaErrorInvalidDevice);
  }
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 1;  // few blocks: kernels step through their grids
      return cudaSuccess;
  }
  return set_error(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceReset() {
  const std::lock_guard lock(process().mutex);
  process().failed = false;
  process().fault.clear();
  cuda_shim::last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  using cuda_shim::kGuard;
  *data = nullptr;
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (bytes > cuda_shim::physical_memory()) {
    return set_error(cudaErrorMemoryAllocation);
  }
  const size_t padded = (bytes + kGuard - 1) / kGuard * kGuard;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(kGuard, padded + 2 * kGuard));
  if (memory == nullptr) {
    return set_error(cudaErrorMemoryAllocation);
  }
  std::memset(memory, cuda_shim::kGuardByte, kGuard);
  std::fill_n(reinterpret_cast<uint32_t*>(memory + kGuard), (bytes + 3) / 4, cuda_shim::kPoison);
  std::memset(memory + kGuard + bytes, cuda_shim::kGuardByte, kGuard);
  *data = memory + kGuard;
  const std::lock_guard lock(process().mutex);
  process().allocations[*data] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  using cuda_shim::kGuard;
  if (data == nullptr) {
    return cudaSuccess;
  }
  size_t bytes = 0;
  {
    const std::lock_guard lock(process().mutex);
    const auto found = process().allocations.find(data);
    if (found == process().allocations.end()) {
      return set_error(cudaErrorInvalidValue);
    }
    bytes = found->second;
    process().allocations.erase(found);
  }
  auto* begin = static_cast<unsigned char*>(data);
  const bool whole = cuda_shim::intact(begin - kGuard) && cuda_shim::intact(begin + bytes);
  std::free(begin - kGuard);
  if (!whole) {
    cuda_shim::set_fault("memory around an allocation of " + std::to_string(bytes) +
                         " bytes was written");
    return set_error(cudaErrorIllegalAddress);
  }
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return cudaMalloc(data, bytes);
}

cudaError_t cudaFreeHost(void* data) {
  return cudaFree(data);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = cuda_shim::physical_memory();
  *free =
      static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return cudaSuccess;
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  const cudaError_t error = cudaMemsetAsync(data, value, bytes, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}
