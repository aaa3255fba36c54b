// Deep graphs are represented by shallow ones: what a step of a graph with many equal blocks takes
// is extrapolated from graphs with few of these blocks.
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
  std::vector<OpId> ops;          // per operation: its number in the whole graph
  std::vector<TensorId> tensors;  // per tensor: its number in the whole graph
  // Per operation of the whole graph: the number here of the one that is equal to it.
  std::vector<OpId> stand_ins;
  double weight = 1.0;  // in the extrapolation
};

// A quantity of the whole graph that grows linearly with the number of blocks (seconds of a step,
// bytes) is the weighted sum of the same quantity of the reduced graphs: a line through two depths.
// `signatures`: per operation, equal for operations that are alike (repeats.h). The result is
// approximate, because buckets of gradients end at bucket_bytes, not with blocks;
// tests/search/reduced_graph_test.cpp has its error. Empty where too few operations would be
// removed.
std::vector<ReducedGraph> reduced_graphs_of(const Graph& graph,
                                            const std::vector<uint64_t>& signatures);
// For one plan: blocks are equal if their choices are equal, too.
std::vector<ReducedGraph> reduced_graphs_of(const Graph& graph, std::vector<uint64_t> signatures,
                                            const std::vector<int>& choices);

// Signatures by which operations are alike that compute the same in equal surroundings, and with a
// strategy compute it in the same way. Hints and a search's choices are not looked at.
std::vector<uint64_t> signatures_of(const Graph& graph, const Strategy* strategy = nullptr);

// The strategy for the whole graph that has in every block what the equal one here has.
Strategy extended_to(const Graph& graph, const ReducedGraph& reduced, const Strategy& strategy);

// The part of a strategy, or of a problem, that the reduced graph has.
Strategy restricted_to(const Strategy& strategy, const ReducedGraph& reduced);
Problem restricted_to(const Problem& problem, const ReducedGraph& reduced);

}  // namespace hidup
