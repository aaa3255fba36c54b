// Deep graphs by shorter ones: what a step of a graph with many equal blocks takes follows from
// steps of graphs with few of them.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "search/problem.h"
#include "sharding/strategy.h"

namespace hidup {

// A graph without some of its blocks; what read these reads the equal ones before them.
struct Excerpt {
  Graph graph;
  std::vector<OpId> ops;          // per operation: which it is of the whole graph
  std::vector<TensorId> tensors;  // per tensor, likewise
  double weight = 1.0;
};

// A number of the whole graph that grows evenly with equal blocks (seconds of a step, bytes) is the
// sum of the excerpts', by their weights: a line through two of them. `signatures`: per operation,
// equal where all that counts is equal (repeats.h). Approximate: messages of gradients are as long
// as bucket_bytes, wherever blocks end; tests/search/excerpt_test.cpp has how far off it is.
// Empty where the graph has no blocks that are worth leaving out.
std::vector<Excerpt> excerpts_of(const Graph& graph, const std::vector<uint64_t>& signatures);

// The part of a strategy, or of a problem, that is of the excerpt.
Strategy excerpt_of(const Strategy& strategy, const Excerpt& excerpt);
Problem excerpt_of(const Problem& problem, const Excerpt& excerpt);

}  // namespace hidup
