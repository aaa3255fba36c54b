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
  const Mesh searched = with_paces(options.hints.empty() ? mesh : options.hints.mesh,
                                   paces_of_ranks(deck, mesh, costs));
  const RankCosts ranks = rank_costs(deck, mesh, costs);
  const CostModel balanced(balanced_costs(deck, searched, costs));
  return search_or_advise(
      {graph, searched, options, balanced, ranks, costs_of_changes(deck, costs)});
}

}  // namespace hidup
