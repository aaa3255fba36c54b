// The best unequal parts of a strategy along an axis whose ranks compute at different paces.
#pragma once

#include <cstddef>
#include <optional>

#include "search/proposal.h"

namespace hidup {

// Returns the proposal, whose parts along the axis are equal, with the best shares found: those of
// the linear program, improved by simulation. None where nothing fits in memory.
std::optional<Proposal> with_best_shares(const SearchState& state, const Proposal& proposal,
                                         size_t axis);

// Returns the linear program's share of the proposal's computation, or where that is equal, one in
// proportion to the paces: other rules may need fewer messages. The weights count sequences of the
// whole batch, whatever the microbatches. None where nothing fits in memory.
std::optional<Share> planned_share(const SearchState& state, const Proposal& proposal, size_t axis);

// Returns the seconds of the proposal's step on all ranks, and sets routes and algorithms.
double simulated_s(const SearchState& state, Proposal& proposal);

}  // namespace hidup
