// Selects the states that the dynamic programming drops.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "search/dp/expand.h"

namespace hidup {

States Expander::with_states(const States& states, const std::vector<bool>& kept) {
  States result(states.tensors());
  for (size_t state = 0; state < kept.size(); ++state) {
    if (kept[state]) {
      result.find_or_add(states.key(state));
    }
  }
  return result;
}

std::vector<bool> Expander::fastest_states(const std::vector<double>& fastest_s) const {
  std::vector<double> sorted = fastest_s;
  const auto last = sorted.begin() + static_cast<ptrdiff_t>(options_.states) - 1;
  std::ranges::nth_element(sorted, last);
  std::vector<bool> kept(fastest_s.size());
  size_t count = 0;
  for (size_t state = 0; state < kept.size() && count < options_.states; ++state) {
    kept[state] = fastest_s[state] <= *last;
    count += kept[state] ? 1 : 0;
  }
  return kept;
}

void Expander::drop_convertible(size_t op, Front& front) const {
  // The number of fast states to compare with. 24 and 96 take equally long.
  constexpr size_t kTried = 48;
  const size_t count = front.states.size();
  const auto seconds = [&](size_t state) { return front.plans[front.begin[state]].seconds; };
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t tried = std::min(kTried, count);
  std::ranges::partial_sort(order, order.begin() + static_cast<ptrdiff_t>(tried), {}, seconds);
  std::vector<bool> kept(count, true);
  const std::vector<size_t>& live = liveness_.live[op + 1];
  // [slot, status]: the place of a fast state in `order`, and its conversion cost.
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
  Front rest(front.states.tensors());
  rest.states = with_states(front.states, kept);
  for (size_t state = 0; state < count; ++state) {
    if (kept[state]) {
      rest.plans.push_back(front.plans[front.begin[state]]);
      rest.begin.push_back(static_cast<uint32_t>(rest.plans.size()));
    }
  }
  front = std::move(rest);
}

}  // namespace hidup
