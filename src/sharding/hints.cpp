#include "sharding/hints.h"

#include <fmt/format.h>

#include <utility>

#include "core/text.h"
#include "sharding/strategy_fields.h"

namespace hidup {
namespace {

using Kind = YamlNode::Kind;

class HintsReader : private StrategyFields {
 public:
  using StrategyFields::StrategyFields;

  Hints read(const std::string& text) {
    const YamlNode root = parse_yaml_map(
        text, "hints: a map of microbatches, gradients, operations or parameters", problems());
    const YamlFields fields =
        fields_of(root, {},
                  {"format_version", "graph_hash", "mesh", "name", "microbatches", "gradients",
                   "operations", "parameters", "routes", "algorithms", "shares", "schedule",
                   "stages", "predicted", "accumulate"});
    if (is_given(fields.at("schedule"))) {
      report(fields.at("schedule"),
             "schedule: a search makes no pipelines: name the file as the strategy");
    }
    read_head(fields);
    problems().throw_if_any();  // further problems would only repeat it
    for (const YamlNode& node : entries(fields.at("operations"), "operations")) {
      read_operation(node);
    }
    for (const YamlNode& node : entries(fields.at("parameters"), "parameters")) {
      read_parameter(node);
    }
    problems().throw_if_any();
    return std::move(hints_);
  }

 private:
  void read_head(const YamlFields& fields) {
    if (is_given(fields.at("format_version"))) {
      check_version(fields.at("format_version"));
    }
    if (is_given(fields.at("graph_hash"))) {
      check_graph(fields.at("graph_hash"));
    }
    if (is_given(fields.at("mesh"))) {
      check_mesh(fields.at("mesh"));
    }
    read_shares(fields.at("shares"), fields.at("format_version"));
    hints_.mesh = mesh();
    const YamlNode& microbatches = fields.at("microbatches");
    if (is_given(microbatches)) {
      hints_.microbatches = read_microbatches(microbatches);
    }
    if (is_given(fields.at("accumulate"))) {
      hints_.accumulate = read_accumulate(fields.at("accumulate"), hints_.microbatches.value_or(1));
    }
    if (is_given(fields.at("gradients"))) {
      hints_.defer_gradients = read_deferred(fields.at("gradients"));
    }
  }

  std::vector<YamlNode> entries(const YamlNode& node, std::string_view key) {
    if (is_given(node) && node.kind != Kind::list) {
      report(node, fmt::format("{}: expected a list", key));
      return {};
    }
    return node.values;
  }

  // Returns the places of the names that `name`, which may be a pattern, matches. Reports none.
  std::vector<size_t> chosen(const YamlNode& node, const YamlNode& name, std::string_view key,
                             std::string_view what, const std::vector<std::string>& names) {
    std::vector<size_t> places;
    for (size_t i = 0; i < names.size(); ++i) {
      if (name.kind == Kind::scalar && !names[i].empty() && matches(name.text, names[i])) {
        places.push_back(i);
      }
    }
    if (places.empty()) {
      const std::string hint = is_given(name) ? nearest(name.text, names) : "";
      report(is_given(name) ? name : node,
             fmt::format("{}: expected {} of the graph, or a pattern (*, ?) of some; found {}{}",
                         key, what, found(name),
                         hint.empty() ? "" : fmt::format(": did you mean {}?", hint)));
    }
    return places;
  }

  void read_operation(const YamlNode& node) {
    const YamlFields fields = fields_of(node, {}, {"op", "rule", "inputs", "outputs", "recompute"});
    std::vector<std::string> names;
    names.reserve(graph().ops().size());
    for (OpId op = 0; op < static_cast<OpId>(graph().ops().size()); ++op) {
      names.push_back(graph().op_name(op));
    }
    const std::vector<size_t> ops = chosen(node, fields.at("op"), "op", "an operation", names);
    const YamlNode& rules = fields.at("rule");
    const bool by_rules = is_given(rules) && check_rules(rules, found(fields.at("op")));
    if (ops.empty() || (!by_rules && !is_given(fields.at("recompute")))) {
      return;
    }
    hints_.resize_ops(names.size(), mesh().size());
    for (const size_t op : ops) {
      if (!pin_recompute(fields.at("recompute"), static_cast<OpId>(op)) ||
          (by_rules && !pin_rules(fields, rules, static_cast<OpId>(op)))) {
        return;  // other problems would mostly repeat it
      }
    }
  }

  bool pin_recompute(const YamlNode& recompute, OpId op) {
    if (!is_given(recompute)) {
      return true;
    }
    const bool value = read_recompute(recompute, op);
    hints_.ops[static_cast<size_t>(op)].recompute = value;
    return value || recompute.text == "false";
  }

  bool pin_rules(const YamlFields& fields, const YamlNode& rules, OpId op) {
    OperationHint& hint = hints_.ops[static_cast<size_t>(op)];
    OpStrategy whole;
    for (size_t axis = 0; axis < mesh().size(); ++axis) {
      if (!is_given(rules.values[axis])) {
        continue;
      }
      const std::optional<Rule> rule = read_rule(rules.values[axis], op, axis);
      if (!rule) {
        return false;
      }
      hint.rules[axis] = rule;
      whole.rules.push_back(*rule);
    }
    if (whole.rules.size() == mesh().size()) {
      check_placements(fields, op, whole);
    }
    return true;
  }

  void read_parameter(const YamlNode& node) {
    const YamlFields fields =
        fields_of(node, {}, {"name", "storage", "optimizer_state", kReshardAfterForward, kKept});
    std::vector<std::string> names;
    names.reserve(graph().tensors().size());
    for (const Tensor& tensor : graph().tensors()) {
      names.push_back(tensor.role == Tensor::Role::parameter ? tensor.name : "");
    }
    const std::vector<size_t> tensors =
        chosen(node, fields.at("name"), "name", "a parameter", names);
    if (!tensors.empty()) {
      hints_.parameters.resize(names.size());
    }
    for (const size_t tensor : tensors) {
      ParameterHint& hint = hints_.parameters[tensor];
      pin_layout(fields, "storage", tensor, hint.storage);
      pin_layout(fields, "optimizer_state", tensor, hint.optimizer_state);
      hint.residency = read_residency(fields, graph().tensors()[tensor].name);
    }
  }

  void pin_layout(const YamlFields& fields, const std::string& key, size_t tensor,
                  std::optional<Layout>& hint) {
    if (is_given(fields.at(key))) {
      hint = read_storage(fields.at(key), graph().tensors()[tensor], key);
    }
  }

  Hints hints_;
};

std::string broken_layout(const std::string& name, std::string_view key,
                          const std::optional<Layout>& hint, const Layout& found) {
  return !hint || *hint == found ? ""
                                 : fmt::format("the hints ask for the {} {} of {}, not {}", key,
                                               print_layout(*hint), name, print_layout(found));
}

std::string broken_operation(const std::string& name, const OperationHint& hint,
                             const OpStrategy& found) {
  for (size_t axis = 0; axis < found.rules.size(); ++axis) {
    const std::optional<Rule>& rule = hint.rules.at(axis);
    if (rule && to_string(*rule) != to_string(found.rules[axis])) {
      return fmt::format("the hints ask for {} by {}, not {}", name, to_string(*rule),
                         to_string(found.rules[axis]));
    }
  }
  return hint.recompute.value_or(found.recompute) == found.recompute
             ? ""
             : fmt::format("the hints ask for {} {}recomputed", name,
                           *hint.recompute ? "" : "not ");
}

std::string broken_parameter(const std::string& name, const ParameterHint& hint,
                             const ParameterStrategy& found) {
  std::string broken = broken_layout(name, "storage", hint.storage, found.storage);
  if (broken.empty()) {
    broken = broken_layout(name, "optimizer state", hint.optimizer_state, found.optimizer_state);
  }
  if (broken.empty() && hint.residency.value_or(found.residency) != found.residency) {
    broken = fmt::format("the hints ask for {}: reshard_after_forward: {}, not {}", name,
                         name_of(*hint.residency), name_of(found.residency));
  }
  return broken;
}

}  // namespace

std::string broken_hint(const Graph& graph, const Hints& hints, const Strategy& strategy) {
  if (hints.microbatches && *hints.microbatches != strategy.microbatches) {
    return fmt::format("the hints ask for {} microbatches, not {}", *hints.microbatches,
                       strategy.microbatches);
  }
  if (hints.accumulate && *hints.accumulate != strategy.accumulate) {
    return fmt::format("the hints ask for {} groups of microbatches, not {}", *hints.accumulate,
                       strategy.accumulate);
  }
  if (hints.defer_gradients && *hints.defer_gradients != strategy.defer_gradients) {
    return fmt::format("the hints ask for {} gradients",
                       *hints.defer_gradients ? "deferred" : "overlapped");
  }
  for (size_t op = 0; op < hints.ops.size(); ++op) {
    std::string broken =
        broken_operation(graph.op_name(static_cast<OpId>(op)), hints.ops[op], strategy.ops.at(op));
    if (!broken.empty()) {
      return broken;
    }
  }
  for (const ParameterStrategy& parameter : strategy.parameters) {
    if (const ParameterHint* hint = hints.of_parameter(parameter.tensor)) {
      std::string broken = broken_parameter(graph.tensor(parameter.tensor).name, *hint, parameter);
      if (!broken.empty()) {
        return broken;
      }
    }
  }
  return "";
}

Strategy with_memory_hints(const Hints& hints, Strategy strategy) {
  strategy.accumulate = hints.accumulate.value_or(strategy.accumulate);
  for (size_t op = 0; op < hints.ops.size(); ++op) {
    bool& recompute = strategy.ops.at(op).recompute;
    recompute = hints.ops[op].recompute.value_or(recompute);
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    if (const ParameterHint* hint = hints.of_parameter(parameter.tensor)) {
      parameter.residency = hint->residency.value_or(parameter.residency);
    }
  }
  return strategy;
}

Hints read_hints(const Graph& graph, const Mesh& mesh, const std::string& text,
                 const std::string& source) {
  return HintsReader(graph, mesh, source).read(text);
}

}  // namespace hidup
