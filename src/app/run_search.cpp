#include "app/run_search.h"

#include "app/costs.h"
#include "app/memory_advice.h"

namespace hidup {

CostsOf costs_of_changes(const Deck& deck, const Profile& costs) {
  return [&deck, &costs](const Mesh& mesh,
                         std::optional<size_t> twice_as_fast) -> std::optional<CostModel> {
    const std::optional<Profile> changed = changed_costs(deck, costs, mesh, twice_as_fast);
    return changed ? std::optional(CostModel(*changed)) : std::nullopt;
  };
}

SearchOutcome search_for(const Deck& deck, const Graph& graph, const Mesh& mesh,
                         const Profile& costs, const SearchOptions& options) {
  const Mesh& searched = options.hints.empty() ? mesh : options.hints.mesh;
  SearchOutcome found = search_or_advise({graph, searched, options, costs_of_changes(deck, costs)});
  const RankCosts all_costs = rank_costs(deck, mesh, costs);
  if (!all_costs.all_alike()) {
    predict(found.step, all_costs);
  }
  return found;
}

}  // namespace hidup
