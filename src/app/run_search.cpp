#include "app/run_search.h"

#include "app/costs.h"
#include "app/memory_advice.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"

namespace hidup {

CostsOf costs_of_changes(const Deck& deck, const Profile& costs) {
  return [&deck, &costs](const Mesh& mesh,
                         std::optional<size_t> twice_as_fast) -> std::optional<ChangedCosts> {
    const std::optional<Profile> changed = changed_costs(deck, costs, mesh, twice_as_fast);
    if (!changed) {
      return std::nullopt;
    }
    if (divide_ranks(*deck.cluster, ranks_of(mesh)).misfit) {
      return CostModel(*changed);
    }
    const Deck then =
        twice_as_fast ? with_twice_the_bandwidth(deck, mesh[*twice_as_fast].name) : deck;
    return ChangedCosts(CostModel(balanced_costs(then, mesh, *changed)),
                        rank_costs(then, mesh, *changed));
  };
}

SearchOutcome search_for(const Deck& deck, const Graph& graph, const Mesh& mesh,
                         const Profile& costs, const SearchOptions& options) {
  const Mesh searched =
      with_measured_paces(options.hints.empty() ? mesh : options.hints.mesh, costs);
  const RankCosts ranks = rank_costs(deck, mesh, costs);
  const CostModel balanced(balanced_costs(deck, searched, costs));
  return search_or_advise(
      {graph, searched, options, balanced, ranks, costs_of_changes(deck, costs)});
}

}  // namespace hidup
