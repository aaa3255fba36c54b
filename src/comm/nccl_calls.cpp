#include "comm/nccl_calls.h"

#include <limits>
#include <utility>

#include "device/cuda_check.h"
#include "device/device.h"

namespace hidup {
namespace {

bool reached(cudaEvent_t event) {
  return cudaEventQuery(event) == cudaSuccess;
}

}  // namespace

NcclCalls::NcclCalls(std::string group) : group_(std::move(group)) {
  check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
}

NcclCalls::~NcclCalls() {
  for (const Call& call : calls_) {
    cudaEventDestroy(call.start);
    cudaEventDestroy(call.end);
  }
  for (const cudaEvent_t event : events_) {
    cudaEventDestroy(event);
  }
}

cudaEvent_t NcclCalls::take_event() {
  cudaEvent_t event = nullptr;
  if (events_.empty()) {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  } else {
    event = events_.back();
    events_.pop_back();
  }
  return event;
}

void NcclCalls::begin(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  drop_ended(2);
  start_ = take_event();
  check_cuda(cudaEventRecord(start_, stream), "cudaEventRecord");
}

void NcclCalls::end(cudaStream_t stream, const char* kind, const std::string& name) {
  const std::lock_guard lock(mutex_);
  Call call{++number_, kind, name, start_, take_event()};
  check_cuda(cudaEventRecord(call.end, stream), "cudaEventRecord");
  calls_.push_back(std::move(call));
}

void NcclCalls::on_host(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  host_doing_ = doing;
  host_since_ = monotonic_seconds();
}

std::string NcclCalls::describe(const char* kind, const std::string& name) const {
  return std::string(kind) + " of " + name + " along " + group_;
}

void NcclCalls::drop_ended(size_t most) {
  for (size_t dropped = 0; dropped < most && !calls_.empty() && reached(calls_.front().end);
       ++dropped) {
    Call& call = calls_.front();
    events_.insert(events_.end(), {call.start, call.end});
    last_ = {.number = call.number,
             .name = describe(call.kind, call.name),
             .seconds = monotonic_seconds()};
    calls_.pop_front();
  }
}

CollectivePlace NcclCalls::place() {
  cudaSetDevice(device_);  // a thread that never did would wake device 0
  const std::lock_guard lock(mutex_);
  drop_ended(std::numeric_limits<size_t>::max());
  const double now = monotonic_seconds();
  if (!calls_.empty() && reached(calls_.front().start)) {
    Call& call = calls_.front();
    call.came = call.came == 0.0 ? now : call.came;
    return {true, call.number, describe(call.kind, call.name), now - call.came};
  }
  if (!host_doing_.empty()) {
    return {true, number_ + 1, host_doing_, now - host_since_};
  }
  CollectivePlace place = last_;
  place.seconds = now - place.seconds;
  return place;
}

}  // namespace hidup
