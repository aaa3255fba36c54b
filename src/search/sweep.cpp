#include "search/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hidup {
namespace {

constexpr size_t kLongestFrontPeriod = 4;  // blocks after which a front may repeat
constexpr double kPaceRounding = 1e-9;     // of the seconds that a block takes
constexpr double kSettled = 1e-6;          // likewise

double fastest(const Front& front) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Member& member : front.members) {
    seconds = std::min(seconds, member.seconds);
  }
  return seconds;
}

// By how much all members' numbers have grown; none if not all by as much.
template <typename Number>
bool grown_alike(const Front& before, const Front& now, double tolerance, Number number,
                 double& growth) {
  growth = number(now.members[0]) - number(before.members[0]);
  for (size_t m = 0; m < now.members.size(); ++m) {
    const double own = number(now.members[m]) - number(before.members[m]);
    if (std::abs(own - growth) > tolerance) {
      return false;
    }
  }
  return true;
}

}  // namespace

Sweep::Sweep(const Problem& problem, const Limits& limits)
    : problem_(problem), limits_(limits), expander_(problem, limits), front_(expander_.first()) {}

bool Sweep::run() {
  std::vector<Repeat> repeats;
  if (!limits_.memory) {  // which is used up block by block
    repeats = find_repeats(signatures_of(problem_));
  }
  auto repeat = repeats.begin();
  trace_of_.resize(problem_.ops.size());
  for (size_t op = 0; op < problem_.ops.size();) {
    while (repeat != repeats.end() && op >= repeat->begin + repeat->count * repeat->period) {
      ++repeat;
      snapshots_.clear();
    }
    if (repeat != repeats.end() && op >= repeat->begin &&
        (op - repeat->begin) % repeat->period == 0) {
      const size_t skipped = skip(*repeat, (op - repeat->begin) / repeat->period);
      op += skipped;
      if (skipped > 0) {
        continue;
      }
    }
    front_ = expander_.expand(op, front_);
    if (limits_.certain && expander_.dropped_states()) {
      return false;
    }
    largest_front_ = std::max(largest_front_, front_.members.size());
    trace_of_[op] = traces_.size();
    std::vector<Trace>& trace = traces_.emplace_back();
    trace.reserve(front_.members.size());
    for (const Member& member : front_.members) {
      trace.push_back({member.parent, member.choice});
    }
    ++op;
  }
  return true;
}

size_t Sweep::skip(const Repeat& repeat, size_t block) {
  const size_t rest = repeat.count - block;
  for (Snapshot& snapshot : snapshots_) {
    snapshot.exposed_forward |= expander_.exposed_forward();
    snapshot.exposed_backward |= expander_.exposed_backward();
  }
  expander_.forget_exposed();
  std::vector<Period> periods;
  for (const Snapshot& snapshot : snapshots_) {
    periods.push_back(period(snapshot, block));
  }
  const bool exact = std::ranges::any_of(periods, &Period::found);
  if (!exact && limits_.width > 0 && !limits_.additive && !limits_.certain) {
    periods.push_back(estimate(block));
  }
  for (const Period& found : periods) {
    const size_t times = found.found ? rest / found.blocks : 0;
    if (times == 0) {
      continue;
    }
    estimated_ |= !exact;
    const auto factor = static_cast<double>(times);
    for (Member& member : front_.members) {
      member.seconds += factor * found.seconds;
      member.under += factor * found.under;
      member.forward.spare += factor * found.spare_forward;
      member.backward.spare += factor * found.spare_backward;
    }
    const size_t first = repeat.begin + block * repeat.period;
    const size_t length = found.blocks * repeat.period;
    for (size_t op = first; op < first + times * length; ++op) {
      trace_of_[op] = trace_of_[op - length];
    }
    snapshots_.clear();
    return times * length;
  }
  snapshots_.push_front({.block = block, .front = front_});
  if (snapshots_.size() > kLongestFrontPeriod) {
    snapshots_.pop_back();
  }
  return 0;
}

Sweep::Period Sweep::period(const Snapshot& before, size_t block) const {
  const Front& old = before.front;
  if (!(old.states == front_.states) || old.begin != front_.begin || front_.members.empty()) {
    return {};
  }
  Period period{.blocks = block - before.block, .seconds = fastest(front_) - fastest(old)};
  const double tolerance = kPaceRounding * std::abs(period.seconds);
  double growth = 0.0;
  const auto same = [&](auto number) {
    return grown_alike(old, front_, tolerance, number, growth) && std::abs(growth) <= tolerance;
  };
  // Idle time may pile up, if it was never short: then it will not be.
  const auto piles_up = [&](auto spare, bool exposed, double& each) {
    return grown_alike(old, front_, tolerance, spare, each) &&
           (std::abs(each) <= tolerance || (each > 0.0 && !exposed));
  };
  period.found = grown_alike(
                     old, front_, tolerance, [](const Member& m) { return m.seconds; }, growth) &&
                 same([](const Member& m) { return m.forward.open; }) &&
                 same([](const Member& m) { return m.forward.room; }) &&
                 same([](const Member& m) { return m.backward.open; }) &&
                 same([](const Member& m) { return m.backward.room; }) &&
                 piles_up([](const Member& m) { return m.forward.spare; }, before.exposed_forward,
                          period.spare_forward) &&
                 piles_up([](const Member& m) { return m.backward.spare; }, before.exposed_backward,
                          period.spare_backward);
  for (size_t m = 0; m < front_.members.size(); ++m) {
    period.under = std::max(period.under, front_.members[m].under - old.members[m].under);
  }
  return period;
}

Sweep::Period Sweep::estimate(size_t block) const {
  if (snapshots_.size() < kLongestFrontPeriod || front_.members.empty()) {
    return {};
  }
  const Front& last = snapshots_[0].front;
  const double growth = fastest(front_) - fastest(last);
  const double growth_before = fastest(last) - fastest(snapshots_[1].front);
  Period period{.blocks = block - snapshots_[0].block, .seconds = growth};
  period.found = last.states == front_.states && last.begin == front_.begin &&
                 std::abs(growth - growth_before) <= kSettled * growth;
  return period;
}

double Sweep::bound() const {
  double bound = std::numeric_limits<double>::infinity();
  for (const Member& member : front_.members) {
    bound = std::min(bound, member.seconds - member.under);
  }
  return bound;
}

std::vector<Plan> Sweep::plans() const {
  std::vector<size_t> last(front_.members.size());
  for (size_t m = 0; m < last.size(); ++m) {
    last[m] = m;
  }
  std::ranges::stable_sort(last, {}, [&](size_t m) { return front_.members[m].seconds; });
  std::vector<Plan> plans;
  for (size_t member : last) {
    Plan plan{.choices = std::vector<int>(problem_.ops.size())};
    for (size_t op = problem_.ops.size(); op-- > 0;) {
      const Trace& trace = traces_[trace_of_[op]][member];
      plan.choices[op] = trace.choice;
      member = trace.parent;
    }
    plan.starts = needed_starts(problem_, plan.choices);
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace hidup
