// CUDA streams, and recordings of their work as CUDA graphs. For the CUDA back end only.
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

// Holds the first failure of a host task; the streams of one device share it.
struct HostFailure {
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<bool> failed = false;
};

std::unique_ptr<Stream> make_cuda_stream(int priority, std::shared_ptr<HostFailure> failure,
                                         std::shared_ptr<CudaClock> clock);

// Implements Device::record(). All events that `issue` uses are CudaEvents.
std::unique_ptr<Recording> record_cuda_streams(std::span<Stream* const> streams, bool timed,
                                               const std::function<void()>& issue);

}  // namespace hidup
