// The graph as text.
//
//   graph NAME
//   input NAME : i32[16, 64]
//   parameter NAME : f32[256, 128] = uniform(0.1) decay
//   NAME = matmul(INPUT, INPUT) {contract=2} : f32[16, 64, 128]
//
// Each line has one statement, and '#' starts a comment. The type after an operation may be left
// out; a given type must be the one that the shape rule infers.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace hidup {

std::string print_graph(const Graph& graph);

// Parses the text. Throws Error(usage) with "SOURCE:LINE:COLUMN: ..." and the nearest known name.
Graph parse_graph(std::string_view text, const std::string& source);

// Returns the hash of the graph's text, which names the graph.
uint64_t graph_hash(const Graph& graph);

}  // namespace hidup
