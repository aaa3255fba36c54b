#include "search/problem/op_strategies.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "program/program.h"

namespace hidup {
namespace {

// Returns the allowed rules of every axis.
std::vector<std::vector<Rule>> rules_per_axis(const std::vector<Rule>& rules, const Mesh& mesh,
                                              const OperationHint* hint,
                                              const std::vector<ShareNumber>& shares = {}) {
  std::vector<std::vector<Rule>> allowed(mesh.size(), rules);
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (hint != nullptr && hint->rules[axis]) {
      allowed[axis] = {*hint->rules[axis]};
    } else if (mesh[axis].size == 1) {
      allowed[axis].resize(1);
    } else if (!shares.empty()) {
      for (Rule& rule : allowed[axis]) {
        rule = takes_share(rule, mesh[axis], shares[axis])
                   ? with_share(std::move(rule), mesh[axis], shares[axis])
                   : std::move(rule);
      }
    }
  }
  return allowed;
}

// Returns the rules that do not gather factors.
std::vector<Rule> without_factors(std::vector<Rule> rules) {
  std::erase_if(rules, [](const Rule& rule) { return rule.factors_of >= 0; });
  return rules;
}

// Returns true where equally many parts may be other groups of experts, of other loads, depending
// on the axes that cut them: where an axis cuts the experts in unequal numbers.
bool parts_have_other_loads(const Graph& graph, OpId op, const Mesh& mesh) {
  std::vector<TensorId> operands = graph.op(op).inputs;
  operands.push_back(graph.op(op).output);
  const auto ranks = static_cast<uint64_t>(ranks_of(mesh));
  return std::ranges::any_of(operands, [&](TensorId id) {
    const std::optional<PackedRows> rows = packed_rows_of(graph, id);
    const auto experts = static_cast<uint64_t>(rows ? graph.tensor(id).shape[0] : 0);
    return rows && rows->loads && experts % ranks != 0 &&
           !(std::has_single_bit(experts) && std::has_single_bit(ranks));
  });
}

// Returns all combinations of a rule per axis.
std::vector<OpStrategy> all_combinations(const std::vector<std::vector<Rule>>& allowed) {
  std::vector<OpStrategy> strategies(1);
  for (const std::vector<Rule>& rules : allowed) {
    std::vector<OpStrategy> longer;
    for (const OpStrategy& shorter : strategies) {
      for (const Rule& rule : rules) {
        longer.push_back(shorter);
        longer.back().rules.push_back(rule);
      }
    }
    strategies = std::move(longer);
  }
  return strategies;
}

// Returns one strategy per rule, with that rule on all axes that have a choice.
std::vector<OpStrategy> same_on_all_axes(const std::vector<std::vector<Rule>>& allowed) {
  const size_t most = std::ranges::max(allowed, {}, &std::vector<Rule>::size).size();
  std::vector<OpStrategy> strategies(most);
  for (size_t r = 0; r < most; ++r) {
    for (const std::vector<Rule>& rules : allowed) {
      strategies[r].rules.push_back(rules[rules.size() == 1 ? 0 : r]);
    }
  }
  return strategies;
}

}  // namespace

size_t most_strategies(const Graph& graph, const Mesh& mesh, const Hints* hints) {
  size_t most = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const OperationHint* hint = hints != nullptr ? hints->of_operation(op) : nullptr;
    size_t count = 1;
    for (const auto& rules : rules_per_axis(without_factors(rules_of(graph, op)), mesh, hint)) {
      count *= rules.size();
    }
    most = std::max(most, count);
  }
  return most;
}

std::vector<OpStrategy> divisions_of(const Graph& graph, OpId op, const Mesh& mesh,
                                     const OperationHint* hint, size_t most) {
  if (parts_have_other_loads(graph, op, mesh)) {
    return {};
  }
  const std::vector<Rule> rules = rules_of(graph, op);
  const auto allowed = rules_per_axis(without_factors(rules), mesh, hint);
  // The key is the number of parts into which each rule cuts the operation.
  std::map<std::vector<int64_t>, OpStrategy> divisions = {
      {std::vector<int64_t>(rules.size(), 1), {}}};
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    std::map<std::vector<int64_t>, OpStrategy> longer;
    for (const auto& [parts, shorter] : divisions) {
      for (const Rule& rule : allowed[axis]) {
        std::vector<int64_t> more = parts;
        const auto of_its_name = std::ranges::find(rules, rule.name, &Rule::name);
        more[static_cast<size_t>(of_its_name - rules.begin())] *= mesh[axis].size;
        const auto [at, is_new] = longer.try_emplace(std::move(more), shorter);
        if (is_new) {
          at->second.rules.push_back(rule);
        }
      }
    }
    if (longer.size() > most) {
      return {};
    }
    divisions = std::move(longer);
  }
  std::vector<OpStrategy> strategies;
  strategies.reserve(divisions.size());
  for (auto& [parts, strategy] : divisions) {
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

std::vector<OpStrategy> op_strategies_of(const Graph& graph, OpId op, const Mesh& mesh,
                                         const OperationHint* hint, bool same_rules,
                                         const std::vector<ShareNumber>& shares) {
  const auto allowed = rules_per_axis(rules_of(graph, op), mesh, hint, shares);
  return same_rules ? same_on_all_axes(allowed) : all_combinations(allowed);
}

std::vector<OpStrategy> op_strategies_near(const Graph& graph, OpId op, const Mesh& mesh,
                                           const OperationHint* hint,
                                           const std::vector<OpStrategy>& known, size_t most,
                                           const std::vector<ShareNumber>& shares) {
  const auto allowed = rules_per_axis(rules_of(graph, op), mesh, hint, shares);
  std::vector<OpStrategy> near;
  const auto add = [&near](const OpStrategy& op_strategy) {
    if (std::ranges::find(near, op_strategy.rules, &OpStrategy::rules) == near.end()) {
      near.push_back({.rules = op_strategy.rules});
    }
  };
  std::ranges::for_each(known, add);
  most += near.size();
  for (const OpStrategy& from : known) {
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      OpStrategy changed = from;
      for (const Rule& rule : allowed[axis]) {
        changed.rules[axis] = rule;
        if (near.size() < most) {
          add(changed);
        }
      }
    }
  }
  return near;
}

}  // namespace hidup
