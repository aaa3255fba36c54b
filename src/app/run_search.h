// The search of a run: what it rests on comes from the decks.
#pragma once

#include "app/changes.h"
#include "cost/profile.h"
#include "deck/deck.h"

namespace hidup {

// The costs of a changed cluster: changed_costs() of the deck and `costs`, both of which have to
// outlive the result.
CostsOf costs_of_changes(const Deck& deck, const Profile& costs);

// Searches with these options, on the mesh of the hints where there are some. The search rests on
// `costs`, the times of its plan on those of every rank (rank_costs()). Throws as
// search_or_advise().
SearchOutcome search_for(const Deck& deck, const Graph& graph, const Mesh& mesh,
                         const Profile& costs, const SearchOptions& options);

}  // namespace hidup
