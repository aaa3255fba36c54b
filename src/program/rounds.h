// Experts that take their rows in rounds; for the sources of this folder only.
//
// A rank has room for all rows that tokens may send to its experts, which are many times the mean.
// With a slack (Tensor::slack) it has room for that many times the mean of each expert and
// sequence, and its experts work in rounds: the first takes as many rows as there is room for, the
// next the rows behind those. Rounds are copies of the operations between expert_pack and
// expert_unpack, whose results add up. The backward pass recomputes all rounds but the first, so
// their rows share memory. Most steps need one round: then the others have no rows, and send
// nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/strategy.h"

namespace hidup {

// A model whose experts work in rounds, and its strategy.
struct RoundsModel {
  Graph graph;
  Strategy strategy;
  std::vector<OpId> original_ops;  // per operation: the one of the model that it comes from
};

// Returns the rows of an expert and sequence in a round; those of a whole sequence at most.
// `routing`: [batch, sequence, choices].
int64_t rows_in_round(const Shape& routing, int64_t experts, double slack);

// Returns the round whose rows these count; without one, no rows.
RoundAttributes round_of(const Graph& graph, TensorId counts);
// Returns the counts of all rows, where these count those of a round.
TensorId all_counts(const Graph& graph, TensorId counts);

// Returns what the names of a round's operations end in; empty for the first round. `round`: with
// rows, or no round.
std::string suffix_of_round(const RoundAttributes& round);

// Returns nothing where one round takes all rows.
std::optional<RoundsModel> with_rounds(const Graph& graph, const Strategy& strategy);

}  // namespace hidup
