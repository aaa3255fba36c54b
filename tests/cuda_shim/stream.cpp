// Streams and events. A stream is a worker thread that runs its tasks in order.
#include "stream.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "block.h"
#include "capture.h"
#include "state.h"

namespace cuda_shim {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

cudaError_t give(cudaStream_t stream, std::function<void()> task) {
  if (fault_set()) {
    return set_error(cudaErrorLaunchFailure);
  }
  return stream_or_default(stream).give(std::move(task));
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> run) {
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFFU || grid.y > 65535 ||
      grid.z > 65535 || block.x == 0 || block.y == 0 || block.z == 0 || block.z > 64 ||
      uint64_t{block.x} * block.y * block.z > 1024 || config.numAttrs > 0) {
    return set_error(cudaErrorInvalidConfiguration);
  }
  if (config.dynamicSmemBytes > most_dynamic_memory(kernel)) {
    return set_error(cudaErrorInvalidValue);
  }
  static std::atomic<uint64_t> launches = 0;
  return give(config.stream,
              [launch = KernelLaunch{kernel, std::move(run), grid, block, config.dynamicSmemBytes},
               number = launches++]() mutable {
                const DeviceAccess access;
                try {
                  run_kernel(launch, number++);  // a graph's launches differ in order
                } catch (const Fault& fault) {
                  set_fault(fault.what());
                }
              });
}

}  // namespace cuda_shim

using cuda_shim::set_error;

CudaShimStream::CudaShimStream() : worker_([this] { work(); }) {}

CudaShimStream::~CudaShimStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  given_.notify_one();
  worker_.join();
}

cudaError_t CudaShimStream::give(std::function<void()> task) {
  if (const auto answer = cuda_shim::capture_work(*this, task)) {
    return *answer;
  }
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), false});
  }
  given_.notify_one();
  return cudaSuccess;
}

void CudaShimStream::give_always(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), true});
  }
  given_.notify_one();
}

void CudaShimStream::synchronize() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return tasks_.empty() && !busy_; });
}

bool CudaShimStream::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !busy_;
}

void CudaShimStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) {
      return;
    }
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    if (task.always || !cuda_shim::fault_set()) {
      task.run();
    }
    lock.lock();
    busy_ = false;
    if (tasks_.empty()) {
      drained_.notify_all();
    }
  }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CudaShimStream;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) {
    return set_error(cudaErrorInvalidResourceHandle);
  }
  cuda_shim::forget(*stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CudaShimStream& awaited = cuda_shim::stream_or_default(stream);
  if (const auto error = cuda_shim::refuse_wait(awaited)) {
    return *error;
  }
  cuda_shim::trace("cudaStreamSynchronize");
  awaited.synchronize();
  return cuda_shim::fault_set() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CudaShimStream& asked = cuda_shim::stream_or_default(stream);
  if (const auto error = cuda_shim::refuse_wait(asked)) {
    return *error;
  }
  if (cuda_shim::fault_set()) {
    return set_error(cudaErrorLaunchFailure);
  }
  return asked.idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return cuda_shim::give(stream, [=] { function(data); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (to == nullptr || from == nullptr) {
    return set_error(cudaErrorInvalidValue);
  }
  const auto copy = [=] {
    const cuda_shim::DeviceAccess access;
    std::memcpy(to, from, bytes);
  };
  CudaShimStream& copying = cuda_shim::stream_or_default(stream);
  if (const auto answer = cuda_shim::capture_work(copying, copy)) {
    return *answer;
  }
  const cudaError_t error = cuda_shim::give(stream, copy);
  if (error == cudaSuccess && !(cuda_shim::reachable(to) && cuda_shim::reachable(from))) {
    copying.synchronize();  // not pinned: the host may wait, and does here
  }
  return error;
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (data == nullptr) {
    return set_error(cudaErrorInvalidValue);
  }
  return cuda_shim::give(stream, [=] {
    const cuda_shim::DeviceAccess access;
    std::memset(data, value, bytes);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CudaShimEvent{
      std::make_shared<CudaShimEvent::State>((flags & cudaEventDisableTiming) == 0)};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

int64_t CudaShimEvent::State::expect() {
  const std::lock_guard lock(mutex);
  return ++given;
}

void CudaShimEvent::State::reach(int64_t recording) {
  {
    const std::lock_guard lock(mutex);
    if (recording < reached) {  // another stream reached a later recording first
      return;
    }
    milliseconds = cuda_shim::now_ms();
    reached = recording;
  }
  changed.notify_all();
}

bool CudaShimEvent::recorded() const {
  const std::lock_guard lock(state->mutex);
  return state->given > 0;
}

// Events are reached after a fault, too, so that no thread waits forever.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CudaShimStream& recorder = cuda_shim::stream_or_default(stream);
  if (const auto answer = cuda_shim::capture_record(*event, recorder)) {
    return *answer;
  }
  recorder.give_always(
      [state = event->state, recording = event->state->expect()] { state->reach(recording); });
  return cuda_shim::fault_set() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags == cudaEventRecordDefault) {
    return cudaEventRecord(event, stream);
  }
  const auto answer =
      cuda_shim::capture_work(cuda_shim::stream_or_default(stream), nullptr, event->state);
  return flags == cudaEventRecordExternal && answer ? *answer : set_error(cudaErrorInvalidValue);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  CudaShimStream& waiter = cuda_shim::stream_or_default(stream);
  if (const auto answer = cuda_shim::capture_wait(*event, waiter)) {
    return *answer;
  }
  const std::shared_ptr<CudaShimEvent::State> state = event->state;
  int64_t recording = 0;
  {
    const std::lock_guard lock(state->mutex);
    recording = state->given;
  }
  return recording == 0 ? cudaSuccess : cuda_shim::give(stream, [state, recording] {
    std::unique_lock wait_lock(state->mutex);
    state->changed.wait(wait_lock, [&] { return state->reached >= recording; });
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto error = cuda_shim::refuse_wait(*event)) {
    return *error;
  }
  const std::lock_guard lock(event->state->mutex);
  return event->state->reached >= event->state->given ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto error = cuda_shim::refuse_wait(*event)) {
    return *error;
  }
  cuda_shim::trace("cudaEventSynchronize");
  CudaShimEvent::State& state = *event->state;
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.reached >= state.given; });
  return cuda_shim::fault_set() ? set_error(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    const std::lock_guard lock(event->state->mutex);
    if (!event->state->timed || event->state->given == 0) {
      return set_error(cudaErrorInvalidResourceHandle);
    }
    if (event->state->reached < event->state->given) {
      return set_error(cudaErrorNotReady);
    }
  }
  *milliseconds = static_cast<float>(end->state->milliseconds - start->state->milliseconds);
  return cudaSuccess;
}
