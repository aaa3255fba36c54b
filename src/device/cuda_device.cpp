#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_memory.h"
#include "device/cuda_streams.h"
#include "device/device.h"

namespace hidup {
namespace {

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(int64_t bytes, std::shared_ptr<std::atomic<int64_t>> allocated)
      : memory_(bytes), allocated_(std::move(allocated)) {
    check_cuda(cudaMemset(memory_.data(), 0, static_cast<size_t>(bytes)), "cudaMemset");
    // Neither the host nor our non-blocking streams wait for the memset by themselves.
    check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
    *allocated_ += bytes;
  }
  ~CudaBuffer() override { *allocated_ -= bytes(); }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  std::byte* data() override { return static_cast<std::byte*>(memory_.data()); }
  int64_t bytes() const override { return memory_.bytes(); }

 private:
  DeviceMemory memory_;
  std::shared_ptr<std::atomic<int64_t>> allocated_;  // the device's; it may end first
};

class CudaHostBuffer final : public Buffer {
 public:
  explicit CudaHostBuffer(int64_t bytes) : memory_(bytes) {
    std::memset(memory_.data(), 0, static_cast<size_t>(bytes));
  }
  std::byte* data() override { return static_cast<std::byte*>(memory_.data()); }
  int64_t bytes() const override { return memory_.bytes(); }

 private:
  PinnedMemory memory_;
};

// Returns the PCI id of the device, or "" if CUDA does not give it.
std::string place_of(int device) {
  char id[32] = "";
  if (cudaDeviceGetPCIBusId(id, sizeof(id), device) != cudaSuccess) {
    cudaGetLastError();  // clears the error for later calls
    return "";
  }
  return id;
}

struct MemoryInfo {
  int64_t free = 0;
  int64_t total = 0;
};
MemoryInfo memory_info() {
  size_t free = 0;
  size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

// Returns the bytes of a rank's share of free memory that stay unused, for kernels that are loaded
// at their first launch, for graphs, and for NCCL's buffers for the first message of a kind.
int64_t reserve(int64_t share) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return std::min(share / 32, kMost);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options)
      : sharing_(options.sharing), is_given_(options.memory != 0) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
      fail(ExitCode::unavailable, "cluster.device.kind is cuda, but no GPU is found: {}",
           cudaGetErrorString(cudaGetLastError()));
    }
    device_ = options.local_rank % count;
    const cudaError_t error = cudaSetDevice(device_);
    if (error != cudaSuccess) {
      fail(ExitCode::unavailable, "cluster.device.kind is cuda, but GPU {} cannot be used: {}",
           device_, cudaGetErrorString(error));
    }
    const int64_t total = memory_info().total;
    memory_ = is_given_ ? std::min(options.memory, total) : total / sharing_;
    clock_ = std::make_shared<CudaClock>();
  }

  std::string name() const override {
    cudaDeviceProp properties = {};
    check_cuda(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
    return properties.name;
  }

  std::string description() const override {
    return fmt::format("{} {}", name(), place_of(device_));
  }

  int64_t memory() const override { return memory_; }

  int64_t cache() const override {
    int bytes = 0;
    check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device_), "the size of L2");
    return bytes;
  }

  void take_free_memory() override {
    if (!is_given_) {
      const int64_t share = memory_info().free / sharing_;
      memory_ = std::max(share - reserve(share), kAlignment);  // 0 would mean no limit
      which_ = " free for this rank";
    }
  }

  std::unique_ptr<Buffer> allocate(int64_t bytes) override {
    const int64_t size = std::max<int64_t>(bytes, kAlignment);
    if (size > memory_) {
      fail(ExitCode::out_of_memory, "the plan needs {}, the device has {}{}", format_bytes(size),
           format_bytes(memory_), which_);
    }
    const int64_t free = memory_info().free;
    if (size > free) {
      fail(ExitCode::out_of_memory, "the plan needs {}, the device has {} that are free",
           format_bytes(size), format_bytes(free));
    }
    return std::make_unique<CudaBuffer>(size, allocated_);
  }

  std::unique_ptr<Buffer> allocate_host(int64_t bytes) override {
    return std::make_unique<CudaHostBuffer>(std::max<int64_t>(bytes, kAlignment));
  }

  int64_t allocated() const override { return *allocated_; }

  // Gives communication priority: its few thread blocks should not wait until a large product ends.
  std::unique_ptr<Stream> create_stream(const std::string& name, int) override {
    int least = 0;
    int greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "the range of priorities");
    return make_cuda_stream(name == "comm" ? greatest : least, failure_, clock_);
  }

  std::unique_ptr<Event> create_event() override {
    return std::make_unique<CudaEvent>(clock_, device_);
  }

  std::unique_ptr<Recording> record(std::span<Stream* const> streams, bool timed,
                                    const std::function<void()>& issue) override {
    return record_cuda_streams(streams, timed, issue);
  }

 private:
  int device_ = 0;
  int sharing_;
  bool is_given_;  // the options set the memory
  int64_t memory_ = 0;
  const char* which_ = "";  // completes messages about the memory
  std::shared_ptr<std::atomic<int64_t>> allocated_ = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_ptr<HostFailure> failure_ = std::make_shared<HostFailure>();
  std::shared_ptr<CudaClock> clock_;
};

// Returns the text of CUDA's version number: "12.4" for 12040.
std::string version_text(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

}  // namespace

void fail_cuda(cudaError_t error, const char* call) {
  cudaGetLastError();  // clears the error for later calls
  fail(ExitCode::internal, "{} failed: {} ({})", call, cudaGetErrorString(error),
       cudaGetErrorName(error));
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.kind != "cuda") {
    fail(ExitCode::unavailable,
         "cluster.device.kind is {}, but this program was built for CUDA ranks only: in a job of "
         "several builds set it to auto",
         options.kind);
  }
  return std::make_unique<CudaDevice>(options);
}

std::string device_place(const DeviceOptions& options) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    cudaGetLastError();  // make_device() reports this error
    return "";
  }
  return place_of(options.local_rank % count);
}

std::string device_kind() {
  return "cuda";
}

std::vector<LibraryVersion> device_libraries() {
  int runtime = 0;
  int driver = 0;
  check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return {{"CUDA runtime", version_text(CUDART_VERSION), version_text(runtime)},
          // The oldest driver that may work: minor versions of CUDA are compatible.
          {"CUDA driver", version_text(CUDART_VERSION / 1000 * 1000),
           driver == 0 ? "" : version_text(driver)}};
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hidup
