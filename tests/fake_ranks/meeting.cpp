#include "fake_ranks/meeting.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

std::string describe(size_t rank, const Call& call) {
  const std::string counts =
      call.counts.empty() ? "" : fmt::format(" (counts {})", fmt::join(call.counts, ", "));
  return fmt::format("rank {} came to {}{}", rank, call.doing, counts);
}

// Returns the difference between two ranks' calls; empty where all agree.
std::string mismatch(const std::vector<Call>& calls) {
  for (size_t r = 0; r < calls.size(); ++r) {
    const bool pairwise = !calls[r].receive_counts.empty();
    if (calls[r].doing != calls[0].doing || (!pairwise && calls[r].counts != calls[0].counts)) {
      return fmt::format("{}, but {}", describe(0, calls[0]), describe(r, calls[r]));
    }
  }
  for (size_t from = 0; from < calls.size(); ++from) {
    for (size_t to = 0; to < calls[from].receive_counts.size(); ++to) {
      if (calls[from].counts[to] != calls[to].receive_counts[from]) {
        return fmt::format("{}: rank {} sends {} elements to rank {}, which expects {}",
                           calls[0].doing, from, calls[from].counts[to], to,
                           calls[to].receive_counts[from]);
      }
    }
  }
  return "";
}

}  // namespace

void FakeWorld::fail(const std::string& why) {
  if (failure.empty()) {
    failure = why;
  }
  changed.notify_all();
}

Meeting::Meeting(std::shared_ptr<FakeWorld> world, int ranks)
    : world_(std::move(world)), calls_(static_cast<size_t>(ranks)) {}

void Meeting::meet(int rank, Call call, const std::function<void(std::vector<Call>&)>& work) {
  std::unique_lock lock(world_->mutex);
  std::optional<Call>& place = calls_[static_cast<size_t>(rank)];
  if (world_->failure.empty() && place.has_value()) {
    world_->fail(
        fmt::format("rank {} came to {} while it is in {}", rank, call.doing, place->doing));
  }
  if (world_->failure.empty()) {
    const std::string doing = call.doing;
    const int64_t mine = held_;
    place = std::move(call);
    if (std::all_of(calls_.begin(), calls_.end(), [](const auto& c) { return c.has_value(); })) {
      hold(work);
    }
    const auto decided = [&] { return held_ > mine || !world_->failure.empty(); };
    if (!world_->changed.wait_for(lock, std::chrono::duration<double>(world_->timeout), decided)) {
      world_->fail(
          fmt::format("{} did not come to {} within {} s", missing(), doing, world_->timeout));
    }
    if (held_ > mine) {
      return;  // the failure belongs to a later meeting
    }
  }
  throw Error(ExitCode::communication, world_->failure);
}

// Call it with the lock held, after all ranks' calls have come.
void Meeting::hold(const std::function<void(std::vector<Call>&)>& work) {
  std::vector<Call> calls;
  for (std::optional<Call>& call : calls_) {
    calls.push_back(std::move(*call));
    call.reset();
  }
  const std::string why = mismatch(calls);
  if (!why.empty()) {
    world_->fail(why);
    return;
  }
  work(calls);
  ++held_;
  world_->changed.notify_all();
}

std::string Meeting::missing() const {
  std::vector<size_t> ranks;
  for (size_t r = 0; r < calls_.size(); ++r) {
    if (!calls_[r].has_value()) {
      ranks.push_back(r);
    }
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace hidup
