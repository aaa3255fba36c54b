// Which states the dynamic programming drops.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "search/dp/expand.h"

namespace hidup {

Front Expander::with_states(const Front& front, const std::vector<bool>& kept) {
  Front result(front.states.tensors());
  for (size_t state = 0; state < kept.size(); ++state) {
    if (kept[state]) {
      result.states.find_or_add(front.states.key(state));
      result.plans.insert(result.plans.end(), front.plans.begin() + front.begin[state],
                          front.plans.begin() + front.begin[state + 1]);
      result.begin.push_back(static_cast<uint32_t>(result.plans.size()));
    }
  }
  return result;
}

void Expander::drop_states(Front& front) {
  dropped_states_ = true;
  std::vector<double> best(front.states.size(), std::numeric_limits<double>::infinity());
  for (size_t state = 0; state < best.size(); ++state) {
    if (front.begin[state] < front.begin[state + 1]) {
      best[state] = front.plans[front.begin[state]].seconds;
    }
  }
  std::vector<double> sorted = best;
  const auto last = sorted.begin() + static_cast<ptrdiff_t>(options_.states) - 1;
  std::ranges::nth_element(sorted, last);
  std::vector<bool> kept(best.size());
  size_t count = 0;
  for (size_t state = 0; state < best.size() && count < options_.states; ++state) {
    kept[state] = best[state] <= *last;
    count += kept[state] ? 1 : 0;
  }
  front = with_states(front, kept);
}

void Expander::drop_convertible(size_t op, Front& front) const {
  // The fastest states, to which the others are compared. 24 and 96 take the same time, within the
  // errors of measurement.
  constexpr size_t kTried = 48;
  const size_t count = front.states.size();
  const auto seconds = [&](size_t state) { return front.plans[front.begin[state]].seconds; };
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t tried = std::min(kTried, count);
  std::ranges::partial_sort(order, order.begin() + static_cast<ptrdiff_t>(tried), {}, seconds);
  std::vector<bool> kept(count, true);
  const std::vector<size_t>& live = liveness_.live[op + 1];
  // [slot, status], of the fast state whose number is beside it.
  std::vector<std::pair<size_t, double>> known(live.size() * statuses_.size(), {tried, 0.0});
  for (size_t t = 0; t < tried; ++t) {
    const size_t fast = order[t];
    if (!kept[fast]) {
      continue;
    }
    const StatusId* from = front.states.key(fast);
    for (size_t state = 0; state < count; ++state) {
      double total = seconds(fast) - seconds(state);
      if (!kept[state] || state == fast || total > 0.0) {
        continue;
      }
      const StatusId* to = front.states.key(state);
      for (size_t slot = 0; slot < live.size() && total <= 0.0; ++slot) {
        if (from[slot] == to[slot]) {
          continue;
        }
        auto& [of, cost] = known[slot * statuses_.size() + to[slot]];
        if (of != t) {
          of = t;
          cost = conversion(problem_.tensor_of(live[slot]), liveness_.later[op + 1][slot],
                            statuses_[from[slot]], statuses_[to[slot]], options_.memory_multiplier);
        }
        total += cost;
      }
      kept[state] = total > 0.0;
    }
  }
  front = with_states(front, kept);
}

}  // namespace hidup
