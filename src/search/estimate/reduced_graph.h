// Reduced graphs, from which costs of deep graphs with many equal blocks are extrapolated.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "search/problem/problem.h"
#include "sharding/strategy.h"

namespace hidup {

// A graph without some of its equal blocks. Operations that read a removed block read the equal
// block before it instead.
struct ReducedGraph {
  Graph graph;
  std::vector<OpId> ops;          // per operation, its number in the whole graph
  std::vector<TensorId> tensors;  // per tensor, its number in the whole graph
  // Per operation of the whole graph, the number of the equal operation here.
  std::vector<OpId> stand_ins;
  double weight = 1.0;  // in the extrapolation
};

// Returns graphs whose weighted sum of a quantity (seconds of a step, bytes) gives that of the
// whole graph, if it grows linearly with the number of blocks: a line through two depths.
// `signatures`: one per operation, equal for similar ones (repeats.h). The result is approximate,
// because gradient buckets end at bucket_bytes and not with blocks;
// tests/search/reduced_graph_test.cpp has the error. Returns none if too few operations would go.
std::vector<ReducedGraph> reduced_graphs_of(const Graph& graph,
                                            const std::vector<uint64_t>& signatures);
// Does the same for one plan: equal blocks need equal choices, too.
std::vector<ReducedGraph> reduced_graphs_of(const Graph& graph, std::vector<uint64_t> signatures,
                                            const std::vector<int>& choices);

// Returns equal signatures for operations that compute the same in equal surroundings, and, given a
// strategy, in the same way. Ignores hints and a search's choices.
std::vector<uint64_t> signatures_of(const Graph& graph, const Strategy* strategy = nullptr);

// Returns the strategy for the whole graph, in which every block follows its equal block here.
Strategy extended_to(const Graph& graph, const ReducedGraph& reduced, const Strategy& strategy);

// Return the part of a strategy, or of a problem, on the reduced graph.
Strategy restricted_to(const Strategy& strategy, const ReducedGraph& reduced);
Problem restricted_to(const Problem& problem, const ReducedGraph& reduced);

}  // namespace hidup
