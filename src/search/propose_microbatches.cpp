// Proposes the fastest strategy with more microbatches than the search tried.
#include <algorithm>

#include "search/memory_limit.h"
#include "search/proposal.h"

namespace hidup {

// If the largest number so far is the best, twice as many may hide more messages.
std::vector<Proposal> propose_more_microbatches(const SearchState& state) {
  const std::vector<int>& tried = state.options.microbatches;
  if (state.fastest.empty() || state.options.hints.microbatches || tried.size() < 2) {
    return {};
  }
  const Proposal& fastest = *state.fastest[0].proposal;
  const Strategy& strategy = fastest.parts.parts[0].strategy;
  const int twice = 2 * strategy.microbatches;
  if (strategy.microbatches < std::ranges::max(tried) ||
      int64_t{twice} * strategy.accumulate > splittable_batch(state.graph)) {
    return {};
  }
  return {with_change(fastest, "more microbatches", state.graph,
                      [twice](const Graph&, Strategy& more) { more.microbatches = twice; })};
}

}  // namespace hidup
