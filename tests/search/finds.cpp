#include "finds.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hidup {

const std::string& rule_of(const Graph& graph, const Strategy& strategy, const std::string& output,
                           size_t axis) {
  const auto op = static_cast<size_t>(graph.tensor(graph.find(output)).producer);
  return strategy.ops.at(op).rules.at(axis).name;
}

bool all_by(const Graph& graph, const Strategy& strategy, OpKind kind,
            const std::vector<std::string>& rules, size_t axis) {
  bool all = true;
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    all &= graph.ops()[op].kind != kind ||
           std::ranges::find(rules, strategy.ops[op].rules.at(axis).name) != rules.end();
  }
  return all;
}

bool is_tensor_parallel(const Graph& graph, const Strategy& strategy, size_t axis) {
  const auto by = [&](const std::string& output, const std::string& rule) {
    return rule_of(graph, strategy, output, axis) == rule;
  };
  bool all = true;
  for (const std::string layer : {"layers.0.", "layers.1."}) {
    all &= by(layer + "attention.qkv", "column(1)") && by(layer + "attention", "head") &&
           by(layer + "attention.out", "row(0)") && by(layer + "ffn.up", "column") &&
           by(layer + "ffn.down", "row");
  }
  return all;
}

Candidate own_of(const SearchOutcome& outcome) {
  const auto own = std::ranges::find_if(outcome.candidates, [](const Candidate& candidate) {
    return candidate.feasible && candidate.strategy.name == "search";
  });
  EXPECT_NE(own, outcome.candidates.end());
  return own == outcome.candidates.end() ? Candidate{} : *own;
}

}  // namespace hidup
