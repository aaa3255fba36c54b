// Inside the CUDA back end: its streams, and recordings of what they are given as CUDA graphs.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "device/cuda_event.h"
#include "device/device.h"

namespace hidup {

// The first failure of a host task, shared by the streams of one device.
struct HostFailure {
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<bool> failed = false;
};

std::unique_ptr<Stream> make_cuda_stream(int priority, std::shared_ptr<HostFailure> failure,
                                         std::shared_ptr<CudaClock> clock);

// See Device::record(). All events that `issue` uses are CudaEvents.
std::unique_ptr<Recording> record_cuda_streams(std::span<Stream* const> streams, bool timed,
                                               const std::function<void()>& issue);

}  // namespace hidup
