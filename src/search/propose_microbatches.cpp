// The fastest strategy with more microbatches than the problems have.
#include <algorithm>
#include <utility>

#include "search/memory_limit.h"
#include "search/proposal.h"

namespace hidup {

// Where the largest number that was tried is the best, twice as many may hide more messages.
std::vector<Proposal> propose_more_microbatches(const SearchState& state) {
  const std::vector<int>& tried = state.options.microbatches;
  if (state.fastest.empty() || state.options.hints.microbatches || tried.size() < 2) {
    return {};
  }
  Proposal more = *state.fastest[0].proposal;
  const Strategy& strategy = more.parts.parts[0].strategy;
  const int twice = 2 * strategy.microbatches;
  if (strategy.microbatches < std::ranges::max(tried) ||
      int64_t{twice} * strategy.accumulate > splittable_batch(state.graph)) {
    return {};
  }
  more.by = "more microbatches";
  more.objective_s = 0.0;
  more.in_bound = false;
  for (StrategyParts::Part& part : more.parts.parts) {
    part.strategy.microbatches = twice;
    part.strategy.routes.clear();
    part.strategy.algorithms.clear();
  }
  more.make = [make = std::move(more.make), twice] {
    Strategy whole = make();
    whole.microbatches = twice;
    return whole;
  };
  return {std::move(more)};
}

}  // namespace hidup
