#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/units.h"
#include "device/cuda_check.h"
#include "device/cuda_stream.h"
#include "device/device.h"

namespace hidup {
namespace {

// The first failure of a host task, shared by the streams of one device.
struct Shared {
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<bool> failed = false;
};

// A CUDA event that owns its handle.
class EventHandle {
 public:
  EventHandle() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  ~EventHandle() { cudaEventDestroy(event_); }
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Relates CUDA's time, known only as the milliseconds between two events, to monotonic_seconds().
// They come in single precision, so the event that times are measured from is renewed.
class Clock {
 public:
  Clock() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    mark(*base_);
    base_seconds_ = monotonic_seconds();
  }
  ~Clock() { cudaStreamDestroy(stream_); }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  double seconds_of(cudaEvent_t event) {
    const std::lock_guard lock(mutex_);
    return base_seconds_ + seconds_between(base_->get(), event);
  }

  void renew() {
    constexpr double kOld = 1.0;  // seconds, of which single precision resolves 60 ns
    const std::lock_guard lock(mutex_);
    if (monotonic_seconds() - base_seconds_ < kOld) {
      return;
    }
    mark(*next_);
    base_seconds_ += seconds_between(base_->get(), next_->get());
    std::swap(base_, next_);
  }

 private:
  void mark(const EventHandle& event) {
    check_cuda(cudaEventRecord(event.get(), stream_), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
  }

  static double seconds_between(cudaEvent_t from, cudaEvent_t to) {
    float milliseconds = 0.0F;
    check_cuda(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<EventHandle> base_ = std::make_unique<EventHandle>();
  std::unique_ptr<EventHandle> next_ = std::make_unique<EventHandle>();
  double base_seconds_ = 0.0;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<Clock> clock, int device) : clock_(std::move(clock)), device_(device) {}
  double seconds() const override { return clock_->seconds_of(event_.get()); }
  bool reached() const override {
    cudaSetDevice(device_);  // any thread asks; one that never did would wake device 0 for it
    return cudaEventQuery(event_.get()) == cudaSuccess;
  }
  cudaEvent_t handle() const { return event_.get(); }

 private:
  std::shared_ptr<Clock> clock_;
  int device_;
  EventHandle event_;
};

// Memory of the device, or of the host and pinned.
template <cudaError_t (*kAllocate)(void**, size_t), cudaError_t (*kFree)(void*)>
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(bytes) {
    const cudaError_t error = kAllocate(&data_, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // not to be met again by a later call
      fail(ExitCode::out_of_memory, "CUDA has no {} more", format_bytes(bytes));
    }
    check_cuda(error, "an allocation");
  }
  ~Memory() { kFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
};
using DeviceMemory = Memory<cudaMalloc, cudaFree>;
using PinnedMemory = Memory<cudaMallocHost, cudaFreeHost>;

// Memory for what passes in the order of one stream. Where more is needed, a larger piece takes its
// place; work given before may still use the old ones, which stay: no host waits here.
template <typename Piece>
class Scratch {
 public:
  void* at_least(int64_t bytes) {
    const int64_t held = pieces_.empty() ? 0 : pieces_.back()->bytes();
    if (bytes > held || pieces_.empty()) {
      pieces_.push_back(std::make_unique<Piece>(std::max({bytes, 2 * held, int64_t{1} << 16})));
    }
    return pieces_.back()->data();
  }

 private:
  std::vector<std::unique_ptr<Piece>> pieces_;  // the last is in use
};

// A host task on its way through a stream.
struct HostTask {
  std::shared_ptr<Shared> shared;
  std::function<void()> run;
};

void run_host_task(void* data) {
  const std::unique_ptr<HostTask> task(static_cast<HostTask*>(data));
  if (task->shared->failed.load()) {
    return;
  }
  try {
    task->run();
  } catch (...) {
    const std::lock_guard lock(task->shared->mutex);
    if (!task->shared->failure) {
      task->shared->failure = std::current_exception();
    }
    task->shared->failed = true;
  }
}

class CudaStreamOfDevice final : public CudaStream {
 public:
  CudaStreamOfDevice(int priority, std::shared_ptr<Shared> shared, std::shared_ptr<Clock> clock)
      : shared_(std::move(shared)), clock_(std::move(clock)) {
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
               "cudaStreamCreateWithPriority");
  }
  ~CudaStreamOfDevice() override {
    cudaStreamSynchronize(stream_);  // its memory is freed next
    cudaStreamDestroy(stream_);
  }
  CudaStreamOfDevice(const CudaStreamOfDevice&) = delete;
  CudaStreamOfDevice& operator=(const CudaStreamOfDevice&) = delete;

  cudaStream_t handle() const override { return stream_; }

  void* scratch(int64_t bytes) override { return scratch_.at_least(bytes); }

  std::byte* staging(int64_t bytes) override {
    return static_cast<std::byte*>(staging_.at_least(bytes));
  }

  void enqueue(std::function<void()> task) override {
    auto host_task = std::make_unique<HostTask>(HostTask{shared_, std::move(task)});
    check_cuda(cudaLaunchHostFunc(stream_, run_host_task, host_task.get()), "cudaLaunchHostFunc");
    static_cast<void>(host_task.release());  // run_host_task owns it now
  }

  void copy(void* to, const void* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_),
               "cudaMemcpyAsync");
  }

  void record(Event& event) override {
    check_cuda(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), stream_),
               "cudaEventRecord");
  }

  void wait(Event& event) override {
    check_cuda(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).handle(), 0),
               "cudaStreamWaitEvent");
  }

  void synchronize() override {
    check_cuda(cudaStreamSynchronize(stream_), "work of a stream");
    if (shared_->failed.load()) {
      const std::lock_guard lock(shared_->mutex);
      std::rethrow_exception(shared_->failure);
    }
    clock_->renew();
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Clock> clock_;
  cudaStream_t stream_ = nullptr;
  Scratch<DeviceMemory> scratch_;
  Scratch<PinnedMemory> staging_;
};

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(int64_t bytes, std::shared_ptr<std::atomic<int64_t>> allocated)
      : memory_(bytes), allocated_(std::move(allocated)) {
    check_cuda(cudaMemset(memory_.data(), 0, static_cast<size_t>(bytes)), "cudaMemset");
    // Neither the host nor our streams, which do not block, wait for it by themselves.
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
  std::shared_ptr<std::atomic<int64_t>> allocated_;  // by the device, which may end before
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options) {
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
    size_t free = 0;
    size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const int64_t sharing = (options.local_ranks - 1 - device_) / count + 1;
    const int64_t share = static_cast<int64_t>(total) / sharing;
    memory_ = options.memory == 0 ? share : std::min(options.memory, static_cast<int64_t>(total));
    clock_ = std::make_shared<Clock>();
  }

  std::string name() const override {
    cudaDeviceProp properties = {};
    check_cuda(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties");
    return properties.name;
  }

  std::string description() const override {
    char id[32] = "";
    check_cuda(cudaDeviceGetPCIBusId(id, sizeof(id), device_), "cudaDeviceGetPCIBusId");
    return fmt::format("{} {}", name(), id);
  }

  int64_t memory() const override { return memory_; }

  std::unique_ptr<Buffer> allocate(int64_t bytes) override {
    const int64_t size = std::max<int64_t>(bytes, kAlignment);
    if (size > memory_) {
      fail(ExitCode::out_of_memory, "the plan needs {}, the device has {}", format_bytes(size),
           format_bytes(memory_));
    }
    size_t free = 0;
    size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (size > static_cast<int64_t>(free)) {
      fail(ExitCode::out_of_memory, "the plan needs {}, the device has {} that are free",
           format_bytes(size), format_bytes(static_cast<int64_t>(free)));
    }
    return std::make_unique<CudaBuffer>(size, allocated_);
  }

  int64_t allocated() const override { return *allocated_; }

  // Communication first: its few blocks should not wait until a large product has passed.
  std::unique_ptr<Stream> create_stream(const std::string& name, int) override {
    int least = 0;
    int greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "the range of priorities");
    return std::make_unique<CudaStreamOfDevice>(name == "comm" ? greatest : least, shared_, clock_);
  }

  std::unique_ptr<Event> create_event() override {
    return std::make_unique<CudaEvent>(clock_, device_);
  }

 private:
  int device_ = 0;
  int64_t memory_ = 0;
  std::shared_ptr<std::atomic<int64_t>> allocated_ = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::shared_ptr<Clock> clock_;
};

// CUDA's number 12040 is 12.4.
std::string version_text(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

}  // namespace

void fail_cuda(cudaError_t error, const char* call) {
  cudaGetLastError();  // not to be met again by a later call
  fail(ExitCode::internal, "{} failed: {} ({})", call, cudaGetErrorString(error),
       cudaGetErrorName(error));
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.kind != "cuda") {
    fail(ExitCode::unavailable,
         "cluster.device.kind is {}, but this binary was built for CUDA ranks only", options.kind);
  }
  return std::make_unique<CudaDevice>(options);
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
          // The oldest driver that may do: minor versions of CUDA are compatible.
          {"CUDA driver", version_text(CUDART_VERSION / 1000 * 1000),
           driver == 0 ? "" : version_text(driver)}};
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hidup
