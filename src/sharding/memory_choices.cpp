#include "sharding/memory_choices.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "graph/operation.h"

namespace hidup {
namespace {

// Returns the name up to the end of its first number; empty where it has none.
std::string_view block_name(std::string_view name) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto* const begin = std::ranges::find_if(name, is_digit);
  const auto* const end = std::find_if_not(begin, name.end(), is_digit);
  return begin == name.end() ? "" : name.substr(0, static_cast<size_t>(end - name.begin()));
}

// Returns the number of each operation's block, a run of consecutive operations; -1 for no block.
std::vector<int> blocks_of(const Graph& graph) {
  std::vector<int> blocks;
  std::string_view before;
  int count = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const std::string_view name = block_name(graph.op_name(op));
    count += name == before ? 0 : 1;
    before = name;
    blocks.push_back(name.empty() ? -1 : count);
  }
  return blocks;
}

// Marks operations in a block whose output no operation outside of it reads.
std::vector<bool> inside_blocks(const Graph& graph) {
  const std::vector<int> blocks = blocks_of(graph);
  std::vector<bool> inside;
  inside.reserve(blocks.size());
  for (const int block : blocks) {
    inside.push_back(block >= 0);
  }
  for (size_t op = 0; op < blocks.size(); ++op) {
    for (const TensorId input : graph.ops()[op].inputs) {
      const OpId producer = graph.tensor(input).producer;
      if (producer >= 0 && blocks[static_cast<size_t>(producer)] != blocks[op]) {
        inside[static_cast<size_t>(producer)] = false;
      }
    }
  }
  return inside;
}

}  // namespace

std::string_view name_of(Recompute level) {
  return level == Recompute::none ? "none" : level == Recompute::cheap ? "cheap" : "block";
}

Recompute recompute_of(std::string_view name) {
  for (const Recompute level : kRecomputes) {
    if (name == name_of(level)) {
      return level;
    }
  }
  fail(ExitCode::usage, "expected none, cheap or block, found {}", shown(name));
}

std::vector<bool> recomputed_ops(const Graph& graph, Recompute level) {
  std::vector<bool> chosen =
      level == Recompute::block ? inside_blocks(graph) : std::vector<bool>(graph.ops().size());
  for (OpId op = 0; op < static_cast<OpId>(chosen.size()); ++op) {
    const auto index = static_cast<size_t>(op);
    const bool wanted =
        chosen[index] || (level == Recompute::cheap && spec_of(graph.op(op).kind).cheap);
    chosen[index] = wanted && can_recompute(graph, op);
  }
  return chosen;
}

Strategy with_recompute(const Graph& graph, Strategy strategy, Recompute level) {
  const std::vector<bool> chosen = recomputed_ops(graph, level);
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    strategy.ops[op].recompute = chosen[op];
  }
  return strategy;
}

bool has_memory_choices(const Strategy& strategy) {
  return strategy.accumulate > 1 || std::ranges::any_of(strategy.ops, &OpStrategy::recompute) ||
         std::ranges::any_of(strategy.parameters, [](const ParameterStrategy& parameter) {
           return parameter.residency != Residency::step;
         });
}

Strategy with_residency(Strategy strategy, Residency residency) {
  for (ParameterStrategy& parameter : strategy.parameters) {
    parameter.residency = residency;
  }
  return strategy;
}

}  // namespace hidup
