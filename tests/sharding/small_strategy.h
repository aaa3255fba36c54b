// A strategy's text, and changes of it, for tests of reading.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "sharding/read_strategy.h"
#include "token_graph.h"

namespace hidup {

inline Graph small_graph() {
  return token_graph(R"(parameter table : f32[10, 8] = uniform(0.1) decay
parameter w : f32[8, 10] = uniform(0.1) decay
x = embedding(tokens, table)
y = matmul(x, w)
loss = cross_entropy(y, targets)
)");
}

inline const Mesh kMesh = {{"ranks", 2}};

// The tests use the line numbers of this text.
inline std::string small_text() {
  return fmt::format(R"(format_version: 1
graph_hash: {:016x}
mesh:
  - {{name: ranks, size: 2}}
name: dp
microbatches: 1
gradients: overlapped
operations:
  - {{op: x, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}}
  - {{op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}}
  - {{op: loss, rule: [batch], inputs: [[S(0)], [S(0)]], outputs: [[P]]}}
parameters:
  - {{name: table, storage: [R], optimizer_state: [R]}}
  - {{name: w, storage: [R], optimizer_state: [R]}}
)",
                     graph_hash(small_graph()));
}

inline std::string edited(const std::string& from, const std::string& to) {
  std::string text = small_text();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline std::string reprinted(const Graph& graph, const Mesh& mesh, const std::string& text) {
  return print_strategy(graph, parse_strategy(graph, mesh, text, "s.yaml"));
}

}  // namespace hidup
