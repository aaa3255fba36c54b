#include "comm/nccl_calls.h"

#include <new>
#include <utility>

#include "comm/nccl_marks.h"
#include "core/check.h"
#include "device/cuda_check.h"
#include "device/device.h"

namespace hidup {
namespace {

constexpr int kNameBits = NcclMarks::kNameBits;

}  // namespace

NcclCalls::NcclCalls(std::string group)
    : group_(std::move(group)), marks_(sizeof(NcclMarks)), count_(sizeof(uint64_t)) {
  new (marks_.data()) NcclMarks;
  check_cuda(cudaMemset(count_.data(), 0, sizeof(uint64_t)), "cudaMemset");
  check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
}

uint64_t NcclCalls::name_of(const std::string& what) {
  const auto [found, is_new] = numbers_.try_emplace(what, names_.size());
  if (is_new) {
    check(names_.size() < size_t{1} << kNameBits, "{} has too many collectives", group_);
    names_.push_back(what);
  }
  return found->second;
}

void NcclCalls::mark(cudaStream_t stream, bool comes) {
  mark_collective(stream, static_cast<NcclMarks*>(marks_.data()),
                  static_cast<uint64_t*>(count_.data()), name_, comes);
}

void NcclCalls::begin(cudaStream_t stream, const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    name_ = name_of(what);
    ++given_;
    giving_ = true;
  }
  mark(stream, true);  // without the lock, as the launch may block
}

void NcclCalls::end(cudaStream_t stream) {
  mark(stream, false);
  const std::lock_guard lock(mutex_);
  giving_ = false;
}

void NcclCalls::on_host(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  host_doing_ = doing;
  host_since_ = monotonic_seconds();
}

std::string NcclCalls::describe(const char* kind, const std::string& name) const {
  return std::string(kind) + " of " + name + " along " + group_;
}

CollectivePlace NcclCalls::place_of(uint64_t collective) const {
  const uint64_t name = collective & ((uint64_t{1} << kNameBits) - 1);
  return {.number = static_cast<int64_t>(collective >> kNameBits), .name = names_[name]};
}

CollectivePlace NcclCalls::place() {
  const auto& marks = *static_cast<const NcclMarks*>(marks_.data());
  const uint64_t ended = marks.ended;  // read before `came`, which may be ahead of it
  const uint64_t came = marks.came;
  const uint64_t order = marks.order;
  const double now = monotonic_seconds();
  const std::lock_guard lock(mutex_);
  if (seen_ != std::pair(came, ended)) {
    seen_ = {came, ended};
    since_ = now;
  }
  CollectivePlace place = place_of(came);
  double since = since_;
  // A collective that NCCL has not taken has not begun, even though the mark before it says so.
  place.waiting = came != ended && !(giving_ && place.number == given_);
  if (!place.waiting) {
    place = place_of(ended);
    if (!host_doing_.empty()) {
      place = {.waiting = true, .number = given_, .name = host_doing_};
      since = host_since_;
    }
  }
  place.order = static_cast<int64_t>(order);
  place.seconds = now - since;
  return place;
}

}  // namespace hidup
