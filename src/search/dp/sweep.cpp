#include "search/dp/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace hidup {
namespace {

// The most blocks after which a front may repeat. 8 finds the same; 2 leads to another plan for
// bert near its memory limit, 0.5 % slower.
constexpr size_t kLongestFrontPeriod = 4;
// Rounding differences, relative to the seconds of a block.
constexpr double kPaceRounding = 1e-9;
// The fastest plan has settled if two blocks take equally long within this part. 1e-8 finds the
// same; with 1e-4 the objective of bert on two axes is 0.4 % higher.
constexpr double kSettled = 1e-6;

double fastest(const Front& front) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const PartialPlan& plan : front.plans) {
    seconds = std::min(seconds, plan.seconds);
  }
  return seconds;
}

// Returns true where a number grows by the same amount, `growth`, in all plans.
template <typename Number>
bool grown_alike(const Front& before, const Front& now, double tolerance, Number number,
                 double& growth) {
  growth = number(now.plans[0]) - number(before.plans[0]);
  for (size_t p = 0; p < now.plans.size(); ++p) {
    const double own = number(now.plans[p]) - number(before.plans[p]);
    if (std::abs(own - growth) > tolerance) {
      return false;
    }
  }
  return true;
}

}  // namespace

Sweep::Sweep(const Problem& problem, const SweepOptions& options)
    : problem_(problem),
      options_(options),
      expander_(problem, options),
      front_(expander_.first()) {}

bool Sweep::run() {
  std::vector<Repeat> repeats;
  if (!options_.memory) {  // memory fills block by block, so no front repeats
    repeats = find_repeats(signatures_of(problem_));
  }
  auto repeat = repeats.begin();
  expanded_as_.resize(problem_.ops.size());
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
    if ((options_.certified && expander_.dropped_states()) || expander_.work() > options_.work ||
        options_.deadline.has_passed()) {
      return false;
    }
    largest_front_ = std::max(largest_front_, front_.plans.size());
    expanded_as_[op] = back_pointers_.size();
    std::vector<BackPointer>& pointers = back_pointers_.emplace_back();
    pointers.reserve(front_.plans.size());
    for (const PartialPlan& plan : front_.plans) {
      pointers.push_back({plan.parent, plan.choice});
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
  if (!exact && options_.width > 0 && !options_.additive && !options_.certified) {
    periods.push_back(estimate(block));
  }
  for (const Period& found : periods) {
    const size_t times = found.found ? rest / found.blocks : 0;
    if (times == 0) {
      continue;
    }
    estimated_ |= !exact;
    const auto factor = static_cast<double>(times);
    for (PartialPlan& plan : front_.plans) {
      plan.seconds += factor * found.seconds;
      plan.regret += factor * found.regret;
      plan.forward.spare += factor * found.spare_forward;
      plan.backward.spare += factor * found.spare_backward;
    }
    const size_t first = repeat.begin + block * repeat.period;
    const size_t length = found.blocks * repeat.period;
    for (size_t op = first; op < first + times * length; ++op) {
      expanded_as_[op] = expanded_as_[op - length];
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
  if (!(old.states == front_.states) || old.begin != front_.begin || front_.plans.empty()) {
    return {};
  }
  Period period{.blocks = block - before.block, .seconds = fastest(front_) - fastest(old)};
  const double tolerance = kPaceRounding * std::abs(period.seconds);
  double growth = 0.0;
  const auto same = [&](auto number) {
    return grown_alike(old, front_, tolerance, number, growth) && std::abs(growth) <= tolerance;
  };
  // Idle time may accumulate if every message was hidden: all later messages are then hidden, too.
  const auto accumulates = [&](auto spare, bool exposed, double& each) {
    return grown_alike(old, front_, tolerance, spare, each) &&
           (std::abs(each) <= tolerance || (each > 0.0 && !exposed));
  };
  period.found =
      grown_alike(
          old, front_, tolerance, [](const PartialPlan& p) { return p.seconds; }, growth) &&
      same([](const PartialPlan& p) { return p.forward.open_compute; }) &&
      same([](const PartialPlan& p) { return p.forward.open_comm; }) &&
      same([](const PartialPlan& p) { return p.backward.open_compute; }) &&
      same([](const PartialPlan& p) { return p.backward.open_comm; }) &&
      same([](const PartialPlan& p) { return p.backward.turns_idle; }) &&
      accumulates([](const PartialPlan& p) { return p.forward.spare; }, before.exposed_forward,
                  period.spare_forward) &&
      accumulates([](const PartialPlan& p) { return p.backward.spare; }, before.exposed_backward,
                  period.spare_backward);
  for (size_t p = 0; p < front_.plans.size(); ++p) {
    period.regret = std::max(period.regret, front_.plans[p].regret - old.plans[p].regret);
  }
  return period;
}

Sweep::Period Sweep::estimate(size_t block) const {
  if (snapshots_.size() < kLongestFrontPeriod || front_.plans.empty()) {
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
  for (const PartialPlan& plan : front_.plans) {
    bound = std::min(bound, plan.seconds - plan.regret);
  }
  return bound;
}

std::vector<Plan> Sweep::plans() const {
  std::vector<size_t> order(front_.plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t p) { return front_.plans[p].seconds; });
  std::vector<Plan> plans;
  for (size_t partial : order) {
    Plan plan{.choices = std::vector<int>(problem_.ops.size())};
    for (size_t op = problem_.ops.size(); op-- > 0;) {
      const BackPointer& pointer = back_pointers_[expanded_as_[op]][partial];
      plan.choices[op] = pointer.choice;
      partial = pointer.parent;
    }
    plan.starts = needed_starts(problem_, plan.choices);
    plans.push_back(std::move(plan));
  }
  return plans;
}

bool add_if_it_fits(const Problem& problem, const Plan& plan, DynamicResult& found) {
  const Evaluation cost = evaluate(problem, plan);
  found.least_bytes = std::min(found.least_bytes, cost.bytes);
  if (cost.bytes > problem.memory_limit) {
    return false;
  }
  const bool known = std::ranges::any_of(
      found.plans, [&](const FoundPlan& other) { return other.plan.choices == plan.choices; });
  if (!known) {
    found.plans.push_back({plan, cost});
  }
  return true;
}

void raise_bound(const Problem& problem, const SweepOptions& options, double bound,
                 DynamicResult& found) {
  // Exceeds the rounding of sums in another order: 1e-16 for each of some 1e5 summands.
  constexpr double kRounding = 1e-9;
  // A plan that fits pays for no more than the memory limit.
  const double free =
      options.memory_multiplier > 0.0 ? options.memory_multiplier * problem.memory_limit : 0.0;
  found.lower_bound = std::max(found.lower_bound, bound - free - kRounding * std::abs(bound));
}

void put_in_order(DynamicResult& found) {
  std::ranges::stable_sort(found.plans, {},
                           [](const FoundPlan& plan) { return plan.cost.seconds; });
  if (!found.plans.empty()) {  // sums in another order may differ
    found.lower_bound = std::min(found.lower_bound, found.plans[0].cost.seconds);
  }
}

}  // namespace hidup
