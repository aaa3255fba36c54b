// What ranks compute, agreed by all of them. All of it is collective.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "cost/profile.h"
#include "deck/deck.h"
#include "program/program.h"
#include "sharding/strategy.h"

namespace hidup {

// What a search in a run rests on.
struct SearchBasis {
  const std::optional<Profile>& costs;
  const std::string& hints;  // a file, or empty
  int64_t memory = 0;        // bytes of a rank's device
};

struct LoadedStrategy {
  Strategy strategy;
  double search_s = 0.0;  // 0: it was not searched for
};
// Rank 0 reads, makes or searches for the strategy, all ranks parse the same text; that all have
// the same is checked, not assumed.
LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const SearchBasis& basis, Communicator& world);

// Every rank makes the program; that all made the same is checked, not assumed. `fuse`: see
// LoweringOptions.
Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world, bool fuse = true);

// The same of the forward pass alone.
Program make_forward_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                             Communicator& world);

}  // namespace hidup
