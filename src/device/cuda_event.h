// Events and the clock of their times. For the CUDA back end only.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "device/cuda_check.h"
#include "device/device.h"

namespace hidup {

// Owns the handle of a CUDA event.
class EventHandle {
 public:
  explicit EventHandle(unsigned flags = cudaEventDefault) {
    check_cuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
  }
  ~EventHandle() { cudaEventDestroy(event_); }
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Relates CUDA's time, known only as the milliseconds between two events, to monotonic_seconds().
// CUDA gives them in single precision, so renew() replaces the event from which times are measured.
class CudaClock {
 public:
  CudaClock() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    mark(*base_);
    base_seconds_ = monotonic_seconds();
  }
  ~CudaClock() { cudaStreamDestroy(stream_); }
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  double seconds_of(cudaEvent_t event) {
    const std::lock_guard lock(mutex_);
    return base_seconds_ + seconds_between(base_->get(), event);
  }

  void renew() {
    constexpr double kOld = 1.0;  // seconds; single precision resolves 60 ns of them
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

// In a CUDA graph an event that orders streams is an edge and has no time, and an event with a time
// is a node and orders no streams. So a captured event uses two handles.
class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<CudaClock> clock, int device)
      : clock_(std::move(clock)), device_(device) {}

  double seconds() const override { return clock_->seconds_of(time_.get()); }
  bool reached() const override {
    cudaSetDevice(device_);  // a thread without a current device would initialize device 0
    return cudaEventQuery(time_.get()) == cudaSuccess;
  }

  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(time_.get(), stream), "cudaEventRecord");
  }
  void synchronize() const {
    check_cuda(cudaEventSynchronize(time_.get()), "work before an event");
  }
  void make_wait(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, time_.get(), 0), "cudaStreamWaitEvent");
  }

  // Does the same in a stream that is captured. timed: every launch of the graph renews the time.
  void record_captured(cudaStream_t stream, bool timed) {
    if (order_ == nullptr) {
      order_ = std::make_unique<EventHandle>(cudaEventDisableTiming);
    }
    if (timed) {
      check_cuda(cudaEventRecordWithFlags(time_.get(), stream, cudaEventRecordExternal),
                 "cudaEventRecordWithFlags");
    }
    check_cuda(cudaEventRecord(order_->get(), stream), "cudaEventRecord");
  }
  void make_captured_wait(cudaStream_t stream) const {
    check(order_ != nullptr, "a recording waits for an event that is not in it");
    check_cuda(cudaStreamWaitEvent(stream, order_->get(), 0), "cudaStreamWaitEvent");
  }

 private:
  std::shared_ptr<CudaClock> clock_;
  int device_;
  EventHandle time_;
  std::unique_ptr<EventHandle> order_;  // null before the first capture
};

}  // namespace hidup
