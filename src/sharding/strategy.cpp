#include "sharding/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "graph/text.h"
#include "sharding/memory_choices.h"
#include "sharding/read_schedule.h"
#include "yaml/yaml_tree.h"

namespace hidup {
namespace {

// Returns the layout with `placement` of each axis's rule.
template <typename PlacementOf>
Layout layout_of(const OpStrategy& op, PlacementOf placement) {
  Layout layout;
  for (const Rule& rule : op.rules) {
    layout.push_back(placement(rule));
  }
  return layout;
}

}  // namespace

Layout input_layout(const OpStrategy& op, size_t input) {
  return layout_of(op, [=](const Rule& rule) { return rule.inputs.at(input); });
}

Layout output_layout(const OpStrategy& op) {
  return layout_of(op, [](const Rule& rule) { return rule.output; });
}

Layout gradient_layout(const OpStrategy& op, size_t input) {
  return layout_of(op, [=](const Rule& rule) { return rule.input_gradients.at(input); });
}

Layout factor_layout(const OpStrategy& op, size_t input, Layout layout) {
  for (size_t axis = 0; axis < op.rules.size(); ++axis) {
    if (op.rules[axis].factors_of == static_cast<int>(input)) {
      layout[axis] = op.rules[axis].input_gradients[input];
    }
  }
  return layout;
}

Layout saved_layout(const OpStrategy& op) {
  return layout_of(op, [](const Rule& rule) { return rule.saved; });
}

std::string_view name_of(Residency residency) {
  return residency == Residency::step ? "false" : "true";
}

bool can_recompute(const Graph& graph, OpId op) {
  return graph.op(op).output != graph.loss();
}

Rule find_rule(const Graph& graph, OpId op, std::string_view name) {
  std::vector<Rule> rules = rules_of(graph, op);
  const auto found = std::ranges::find(rules, name, &Rule::name);
  if (found != rules.end()) {
    return std::move(*found);
  }
  std::string legal;
  for (const Rule& rule : rules) {
    legal += fmt::format("{}{}", legal.empty() ? "" : ", ", rule.name);
  }
  fail(ExitCode::usage, "{} has no rule {}; legal: {}", graph.op_name(op), name, legal);
}

std::string print_layout(const Layout& layout) {
  std::string text;
  for (const Placement& placement : layout) {
    text += (text.empty() ? "" : ", ") + to_string(placement);
  }
  return fmt::format("[{}]", text);
}

namespace {

// Returns true if the strategy has shares, rules on one rank, a schedule, routes, algorithms or
// memory choices.
bool needs_format_2(const Strategy& strategy) {
  const auto plain = [](const Layout& layout) {
    return std::ranges::all_of(layout, &Placement::is_plain);
  };
  const auto equal = [](const OpStrategy& op) {
    return std::ranges::all_of(op.rules, &ShareNumber::is_equal, &Rule::share);
  };
  return has_memory_choices(strategy) || strategy.schedule || !strategy.routes.empty() ||
         !strategy.algorithms.empty() ||
         !std::ranges::all_of(strategy.mesh, &std::vector<Share>::empty, &Axis::shares) ||
         !std::ranges::all_of(strategy.ops, equal) ||
         !std::ranges::all_of(strategy.parameters, plain, &ParameterStrategy::storage) ||
         !std::ranges::all_of(strategy.parameters, plain, &ParameterStrategy::optimizer_state);
}

// Returns "shares: {gpu: [[2, 1, 1], [1, 0, 0]]}" for axes that have shares.
std::string print_shares(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh) {
    if (!axis.shares.empty()) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", yaml_word(axis.name), axis.shares);
    }
  }
  return text.empty() ? "" : fmt::format("shares: {{{}}}\n", text);
}

std::string print_routes(const Strategy& strategy) {
  std::string text = strategy.routes.empty() ? "" : "routes:\n";
  for (const RouteChoice& choice : strategy.routes) {
    text += fmt::format("  - {{from: {}, to: {}, bytes: {:.0f}, steps: [{}]}}\n",
                        print_layout(choice.from), print_layout(choice.to), choice.bytes,
                        to_string(choice.steps, strategy.mesh));
  }
  return text;
}

std::string print_algorithms(const Strategy& strategy) {
  std::string text = strategy.algorithms.empty() ? "" : "algorithms:\n";
  for (const AlgorithmChoice& choice : strategy.algorithms) {
    text += fmt::format("  - {{collective: {}, axis: {}, bytes: {:.0f}, algorithm: {}}}\n",
                        name_of(choice.collective), yaml_word(strategy.mesh[choice.axis].name),
                        choice.bytes, name_of(choice.algorithm));
  }
  return text;
}

std::string print_notes(const Graph& graph, const Strategy& strategy) {
  std::string text;
  if (!strategy.stages.empty()) {
    text += "stages:\n";
    for (const OpId op : strategy.stages) {
      text += fmt::format("  - {}\n", yaml_word(graph.op_name(op)));
    }
  }
  if (strategy.predicted) {
    const PredictedStep& step = *strategy.predicted;
    text += fmt::format(
        "predicted: {{iteration_s: {:.6g}, compute_s: {:.6g}, comm_s: {:.6g}, "
        "exposed_comm_s: {:.6g}, peak_bytes: {}}}\n",
        step.iteration_s, step.compute_s, step.comm_s, step.exposed_comm_s, step.peak_bytes);
  }
  return text;
}

}  // namespace

std::string print_strategy(const Graph& graph, const Strategy& strategy) {
  std::string text = fmt::format("format_version: {}\ngraph_hash: {:016x}\nmesh:\n",
                                 needs_format_2(strategy) ? 2 : 1, graph_hash(graph));
  for (const Axis& axis : strategy.mesh) {
    text += fmt::format("  - {{name: {}, size: {}}}\n", yaml_word(axis.name), axis.size);
  }
  text += print_shares(strategy.mesh);
  text += fmt::format(
      "name: {}\nmicrobatches: {}\n{}gradients: {}\noperations:\n", yaml_word(strategy.name),
      strategy.microbatches,
      strategy.accumulate > 1 ? fmt::format("accumulate: {}\n", strategy.accumulate) : "",
      strategy.defer_gradients ? "deferred" : "overlapped");
  for (size_t i = 0; i < strategy.ops.size(); ++i) {
    const OpStrategy& op = strategy.ops[i];
    std::string rules;
    for (const Rule& rule : op.rules) {
      rules += fmt::format("{}{}", rules.empty() ? "" : ", ", to_string(rule));
    }
    std::string inputs;
    for (size_t k = 0; k < graph.ops()[i].inputs.size(); ++k) {
      inputs += (inputs.empty() ? "" : ", ") + print_layout(input_layout(op, k));
    }
    text += fmt::format("  - {{op: {}, rule: [{}], inputs: [{}], outputs: [{}]{}}}\n",
                        yaml_word(graph.op_name(static_cast<OpId>(i))), rules, inputs,
                        print_layout(output_layout(op)), op.recompute ? ", recompute: true" : "");
  }
  text += "parameters:\n";
  for (const ParameterStrategy& parameter : strategy.parameters) {
    text +=
        fmt::format("  - {{name: {}, storage: {}, optimizer_state: {}{}}}\n",
                    yaml_word(graph.tensor(parameter.tensor).name), print_layout(parameter.storage),
                    print_layout(parameter.optimizer_state),
                    parameter.residency == Residency::pass ? ", reshard_after_forward: true" : "");
  }
  return text + print_schedule(graph, strategy) + print_routes(strategy) +
         print_algorithms(strategy) + print_notes(graph, strategy);
}

uint64_t strategy_hash(const Graph& graph, const Strategy& strategy) {
  Strategy bare = strategy;
  bare.stages.clear();
  bare.predicted.reset();
  return hash_of(print_strategy(graph, bare));
}

}  // namespace hidup
