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
#include <optional>

#include "capture.h"
#include "cuda_runtime.h"
#include "cuda_shim/fault.h"
#include "protect.h"
#include "state.h"
#include "stream.h"

namespace cuda_shim {
namespace {

constexpr size_t kGuard = 256;  // bytes before and after an allocation; also its alignment
constexpr unsigned char kGuardByte = 0xA5;
constexpr size_t kSharedBytes = size_t{48} * 1024;       // allowed for every kernel
constexpr size_t kMostSharedBytes = size_t{163} * 1024;  // the largest request on sm_80
// NaN as float and as double, and no valid index.
constexpr uint32_t kPoison = 0x7FFADBAD;

thread_local cudaError_t last_error = cudaSuccess;

struct Allocation {
  size_t bytes;
  bool pinned;  // memory of the host
};

struct Process {
  std::mutex mutex;
  std::atomic<bool> failed = false;
  std::string fault;
  std::map<void*, Allocation> allocations;
  std::map<const void*, size_t> dynamic_memory;  // of kernels with more than the default
  int accesses = 0;                              // number of living DeviceAccess
};

// Makes a process fail whose fault was not read.
void fail_at_exit();

// The state is never destroyed, because threads may outlive main().
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

// Returns the number in an environment variable.
std::optional<int64_t> number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional(std::atoll(text));
}

size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Returns the memory that neither this process nor, by the environment, others use.
size_t free_memory() {
  const std::lock_guard lock(process().mutex);
  auto used = static_cast<size_t>(number_of("CUDA_SHIM_USED_MEMORY").value_or(0));
  for (const auto& [data, allocation] : process().allocations) {
    used += allocation.pinned ? 0 : allocation.bytes;
  }
  return physical_memory() - std::min(used, physical_memory());
}

// Call it with the lock held.
void set_reachable(void* data, const Allocation& allocation, bool reachable) {
  if (protects() && !allocation.pinned) {
    set_block_reachable(static_cast<char*>(data) - kGuard,
                        block_bytes(allocation.bytes + 2 * kGuard), reachable);
  }
}
void set_all_reachable(bool reachable) {
  for (const auto& [data, allocation] : process().allocations) {
    set_reachable(data, allocation, reachable);
  }
}

bool intact(const unsigned char* guard) {
  return std::all_of(guard, guard + kGuard, [](unsigned char b) { return b == kGuardByte; });
}

// Returns the rest of an allocation from this address on; none outside allocations.
std::optional<Allocation> room_at(const void* address) {
  const std::lock_guard lock(process().mutex);
  const auto after = process().allocations.upper_bound(const_cast<void*>(address));
  if (after == process().allocations.begin()) {
    return std::nullopt;
  }
  const auto& [begin, allocation] = *std::prev(after);
  const auto offset =
      static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(begin));
  if (offset > allocation.bytes) {
    return std::nullopt;
  }
  return Allocation{allocation.bytes - offset, allocation.pinned};
}

// Returns the number, in the host, of the only device that this process sees.
const std::optional<int64_t>& visible_device() {
  static const std::optional<int64_t> device = number_of("CUDA_SHIM_VISIBLE_DEVICE");
  return device;
}

int device_count() {
  static const auto count = static_cast<int>(number_of("CUDA_SHIM_DEVICES").value_or(1));
  return visible_device() ? std::min(count, 1) : count;
}

bool device_exists(int device) {
  return device >= 0 && device < device_count();
}

thread_local int current_device = 0;

cudaError_t allocate(void** data, size_t bytes, bool pinned) {
  *data = nullptr;
  if (const auto error = refuse_unsafe()) {
    return *error;
  }
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (bytes > (pinned ? physical_memory() : free_memory())) {
    return set_error(cudaErrorMemoryAllocation);
  }
  auto* memory = static_cast<unsigned char*>(
      std::aligned_alloc(block_alignment(), block_bytes(bytes + 2 * kGuard)));
  if (memory == nullptr) {
    return set_error(cudaErrorMemoryAllocation);
  }
  std::memset(memory, kGuardByte, kGuard);
  std::fill_n(reinterpret_cast<uint32_t*>(memory + kGuard), (bytes + 3) / 4, kPoison);
  std::memset(memory + kGuard + bytes, kGuardByte, kGuard);
  *data = memory + kGuard;
  const std::lock_guard lock(process().mutex);
  process().allocations[*data] = {bytes, pinned};
  set_reachable(*data, process().allocations[*data], process().accesses > 0);
  return cudaSuccess;
}

cudaError_t release(void* data, bool pinned) {
  if (data == nullptr) {
    return cudaSuccess;
  }
  if (const auto error = refuse_unsafe()) {
    return *error;
  }
  size_t bytes = 0;
  {
    const std::lock_guard lock(process().mutex);
    const auto found = process().allocations.find(data);
    if (found == process().allocations.end() || found->second.pinned != pinned) {
      return set_error(cudaErrorInvalidValue);
    }
    bytes = found->second.bytes;
    set_reachable(data, found->second, true);
    process().allocations.erase(found);
  }
  auto* begin = static_cast<unsigned char*>(data);
  const bool whole = intact(begin - kGuard) && intact(begin + bytes);
  std::free(begin - kGuard);
  if (!whole) {
    set_fault("memory around an allocation of " + std::to_string(bytes) + " bytes was written");
    return set_error(cudaErrorIllegalAddress);
  }
  return cudaSuccess;
}

}  // namespace

DeviceAccess::DeviceAccess() {
  const std::lock_guard lock(process().mutex);
  if (process().accesses++ == 0) {
    set_all_reachable(true);
  }
}

DeviceAccess::~DeviceAccess() {
  const std::lock_guard lock(process().mutex);
  if (--process().accesses == 0) {
    set_all_reachable(false);
  }
}

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
  return address == nullptr || room_at(address).has_value();
}

bool device_holds(const void* data, size_t bytes) {
  const std::optional<Allocation> room = room_at(data);
  return room && !room->pinned && room->bytes >= bytes;
}

std::vector<Range> device_ranges() {
  const std::lock_guard lock(process().mutex);
  std::vector<Range> ranges;
  for (const auto& [data, allocation] : process().allocations) {
    if (!allocation.pinned) {
      ranges.push_back({static_cast<const std::byte*>(data), allocation.bytes});
    }
  }
  return ranges;
}

size_t most_dynamic_memory(const void* kernel) {
  const std::lock_guard lock(process().mutex);
  const auto found = process().dynamic_memory.find(kernel);
  return found == process().dynamic_memory.end() ? kSharedBytes : found->second;
}

cudaError_t allow_dynamic_memory(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > kMostSharedBytes) {
    return set_error(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(process().mutex);
  process().dynamic_memory[kernel] = std::max(kSharedBytes, static_cast<size_t>(bytes));
  return cudaSuccess;
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

cudaError_t cudaGetDeviceCount(int* count) {
  *count = cuda_shim::device_count();
  return *count > 0 ? cudaSuccess : set_error(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  if (!cuda_shim::device_exists(device)) {
    return set_error(cudaErrorInvalidDevice);
  }
  cuda_shim::current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = cuda_shim::current_device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (!cuda_shim::device_exists(device)) {
    return set_error(cudaErrorInvalidDevice);
  }
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0",
                static_cast<unsigned>(cuda_shim::visible_device().value_or(device)));
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = cuda_shim::device_count() > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!cuda_shim::device_exists(device)) {
    return set_error(cudaErrorInvalidDevice);
  }
  *properties = {.totalGlobalMem = cuda_shim::physical_memory(),
                 .sharedMemPerBlock = cuda_shim::kSharedBytes,
                 .warpSize = 32,
                 .maxThreadsPerBlock = 1024,
                 .major = 8,
                 .minor = 0,
                 .multiProcessorCount = 1};
  std::strncpy(properties->name, "CUDA shim on the CPU", sizeof(properties->name) - 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!cuda_shim::device_exists(device)) {
    return set_error(cudaErrorInvalidDevice);
  }
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      // The default is few blocks, so that kernels step through their grids.
      *value = static_cast<int>(cuda_shim::number_of("CUDA_SHIM_MULTIPROCESSORS").value_or(1));
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 0;  // no cache is modelled
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
  return cuda_shim::allocate(data, bytes, false);
}

cudaError_t cudaFree(void* data) {
  return cuda_shim::release(data, false);
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return cuda_shim::allocate(data, bytes, true);
}

cudaError_t cudaFreeHost(void* data) {
  return cuda_shim::release(data, true);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = cuda_shim::physical_memory();
  *free = cuda_shim::free_memory();
  return cudaSuccess;
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  if (const auto error = cuda_shim::refuse_unsafe()) {
    return *error;
  }
  return cudaMemsetAsync(data, value, bytes, nullptr);  // the host does not wait
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const auto error = cuda_shim::refuse_unsafe()) {
    return *error;
  }
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}
