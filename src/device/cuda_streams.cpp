#include "device/cuda_streams.h"

#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_memory.h"
#include "device/cuda_stream.h"

namespace hidup {
namespace {

// A function that a stream runs on the host.
struct HostTask {
  std::shared_ptr<HostFailure> failure;
  std::function<void()> run;
};

void run_host_task(void* data) {
  const auto* task = static_cast<HostTask*>(data);
  HostFailure& failure = *task->failure;
  if (failure.failed.load()) {
    return;
  }
  try {
    task->run();
  } catch (...) {
    const std::lock_guard lock(failure.mutex);
    if (!failure.failure) {
      failure.failure = std::current_exception();
    }
    failure.failed = true;
  }
}

void run_host_task_once(void* data) {
  const std::unique_ptr<HostTask> task(static_cast<HostTask*>(data));
  run_host_task(task.get());
}

using HostTasks = std::vector<std::unique_ptr<HostTask>>;

class CudaStreamOfDevice final : public CudaStream {
 public:
  CudaStreamOfDevice(int priority, std::shared_ptr<HostFailure> failure,
                     std::shared_ptr<CudaClock> clock)
      : failure_(std::move(failure)), clock_(std::move(clock)) {
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
               "cudaStreamCreateWithPriority");
  }
  ~CudaStreamOfDevice() override {
    cudaStreamSynchronize(stream_);  // before its memory is freed
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
    auto host_task = std::make_unique<HostTask>(HostTask{failure_, std::move(task)});
    check_cuda(cudaLaunchHostFunc(stream_, captured() ? run_host_task : run_host_task_once,
                                  host_task.get()),
               "cudaLaunchHostFunc");
    if (captured()) {
      recorded_->push_back(std::move(host_task));
    } else {
      static_cast<void>(host_task.release());  // run_host_task_once() owns it now
    }
  }

  void copy(void* to, const void* from, int64_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_),
               "cudaMemcpyAsync");
  }

  void record(Event& event) override {
    auto& cuda_event = static_cast<CudaEvent&>(event);
    if (captured()) {
      cuda_event.record_captured(stream_, timed_);
    } else {
      cuda_event.record(stream_);
    }
  }

  void wait(Event& event) override {
    const auto& cuda_event = static_cast<CudaEvent&>(event);
    if (captured()) {
      cuda_event.make_captured_wait(stream_);
    } else {
      cuda_event.make_wait(stream_);
    }
  }

  void synchronize() override {
    check_cuda(cudaStreamSynchronize(stream_), "work of a stream");
    after_waiting();
  }

  void synchronize(Event& event) override {
    static_cast<CudaEvent&>(event).synchronize();
    after_waiting();
  }

  // Sets the host tasks of the recording that captures this stream, or null where there is none,
  // and whether its events get times.
  void set_recorded(HostTasks* recorded, bool timed) {
    recorded_ = recorded;
    timed_ = timed;
  }

 private:
  bool captured() const { return recorded_ != nullptr; }

  void after_waiting() {
    if (failure_->failed.load()) {
      const std::lock_guard lock(failure_->mutex);
      std::rethrow_exception(failure_->failure);
    }
    clock_->renew();
  }

  std::shared_ptr<HostFailure> failure_;
  std::shared_ptr<CudaClock> clock_;
  HostTasks* recorded_ = nullptr;
  bool timed_ = true;
  cudaStream_t stream_ = nullptr;
  Scratch<DeviceMemory> scratch_;
  Scratch<PinnedMemory> staging_;
};

using Streams = std::vector<CudaStreamOfDevice*>;

// Captures the streams from construction to end(): the first one, and through it the others.
class Capture {
 public:
  Capture(Streams streams, HostTasks& tasks, bool timed) : streams_(std::move(streams)) {
    // In this mode other threads may query events, while calls that a capture forbids, such as
    // allocations, are errors on this thread only.
    check_cuda(cudaStreamBeginCapture(first(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    for (CudaStreamOfDevice* stream : streams_) {
      stream->set_recorded(&tasks, timed);
    }
  }
  ~Capture() {
    if (first() != nullptr) {  // after an error, which is already on its way to the caller
      stop();
      cudaGetLastError();
    }
    if (graph_ != nullptr) {
      cudaGraphDestroy(graph_);
    }
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void fork() {
    check_cuda(cudaEventRecord(mark_.get(), first()), "cudaEventRecord");
    for (size_t i = 1; i < streams_.size(); ++i) {
      check_cuda(cudaStreamWaitEvent(streams_[i]->handle(), mark_.get(), 0), "cudaStreamWaitEvent");
    }
  }
  void join() {
    for (size_t i = 1; i < streams_.size(); ++i) {
      check_cuda(cudaEventRecord(mark_.get(), streams_[i]->handle()), "cudaEventRecord");
      check_cuda(cudaStreamWaitEvent(first(), mark_.get(), 0), "cudaStreamWaitEvent");
    }
  }
  cudaGraph_t end() {
    check_cuda(stop(), "cudaStreamEndCapture");
    return graph_;
  }

 private:
  cudaStream_t first() const { return streams_.empty() ? nullptr : streams_.front()->handle(); }
  cudaError_t stop() {
    const cudaStream_t stream = first();
    for (CudaStreamOfDevice* part : std::exchange(streams_, {})) {
      part->set_recorded(nullptr, true);
    }
    return cudaStreamEndCapture(stream, &graph_);
  }

  Streams streams_;  // empty after end()
  EventHandle mark_ = EventHandle(cudaEventDisableTiming);
  cudaGraph_t graph_ = nullptr;
};

class CudaRecording final : public Recording {
 public:
  CudaRecording(const Streams& streams, bool timed, const std::function<void()>& issue)
      : stream_(streams.front()->handle()) {
    Capture capture(streams, tasks_, timed);
    capture.fork();
    issue();
    capture.join();
    // Makes kernels keep the priority of the stream on which they were launched.
    check_cuda(
        cudaGraphInstantiate(&graph_, capture.end(), cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  }
  ~CudaRecording() override {
    cudaStreamSynchronize(stream_);  // before its host tasks are freed
    cudaGraphExecDestroy(graph_);
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  void replay() override { check_cuda(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  HostTasks tasks_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<Stream> make_cuda_stream(int priority, std::shared_ptr<HostFailure> failure,
                                         std::shared_ptr<CudaClock> clock) {
  return std::make_unique<CudaStreamOfDevice>(priority, std::move(failure), std::move(clock));
}

std::unique_ptr<Recording> record_cuda_streams(std::span<Stream* const> streams, bool timed,
                                               const std::function<void()>& issue) {
  Streams parts;
  for (Stream* stream : streams) {
    parts.push_back(static_cast<CudaStreamOfDevice*>(stream));
  }
  return std::make_unique<CudaRecording>(parts, timed, issue);
}

}  // namespace hidup
