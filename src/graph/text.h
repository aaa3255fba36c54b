// The graph as text: prints, parses, diffs.
//
//   graph NAME
//   input NAME : i32[16, 64]
//   parameter NAME : f32[256, 128] = uniform(0.1) decay
//   NAME = matmul(INPUT, INPUT) {contract=2} : f32[16, 64, 128]
//
// One statement a line, '#' starts a comment. The type behind an operation may
// be left out; where it is given it must be what the shape rule infers.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace hidup {

std::string print_graph(const Graph& graph);

// Throws Error(usage) with "SOURCE:LINE:COLUMN: ..." and the nearest known name.
Graph parse_graph(std::string_view text, const std::string& source);

// The hash that names a graph: of its text.
uint64_t graph_hash(const Graph& graph);

}  // namespace hidup
