// The search of a run, with costs from the decks.
#pragma once

#include "app/changes.h"
#include "cost/profile.h"
#include "deck/deck.h"

namespace hidup {

// Returns costs by changed_costs() of the deck and `costs`, which must both outlive the result.
// Ranks that cluster.devices does not fit count as the slowest.
CostsOf costs_of_changes(const Deck& deck, const Profile& costs);

// Searches with these options, on the mesh of the hints, if any. The search rests on `costs`; the
// times of its plan rest on those of every rank (rank_costs()). Throws as search_or_advise().
SearchOutcome search_for(const Deck& deck, const Graph& graph, const Mesh& mesh,
                         const Profile& costs, const SearchOptions& options);

}  // namespace hidup
