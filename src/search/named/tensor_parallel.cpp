#include "search/named/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sharding/rules.h"

namespace hidup {
namespace {

class TensorParallel {
 public:
  TensorParallel(const Graph& graph, bool along_sequence)
      : graph_(graph), rest_(along_sequence ? "sequence" : "replicate") {
    columns_.assign(graph.tensors().size(), "");
    feeds_route_.assign(graph.tensors().size(), false);
    for (const Op& op : graph.ops()) {
      for (const TensorId input : op.inputs) {
        if (op.kind == OpKind::route) {
          feeds_route_[static_cast<size_t>(input)] = true;
        }
      }
    }
  }

  std::vector<std::string> rules() {
    std::vector<std::string> rules;
    rules.reserve(graph_.ops().size());
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops().size()); ++id) {
      rules.push_back(rule_of(id));
    }
    return rules;
  }

 private:
  std::string& columns(TensorId id) { return columns_.at(static_cast<size_t>(id)); }
  bool has_rule(OpId id, const std::string& name) const {
    return std::ranges::any_of(rules_of(graph_, id),
                               [&](const Rule& rule) { return rule.name == name; });
  }
  std::string rest(OpId id) const { return has_rule(id, rest_) ? rest_ : "replicate"; }
  // The operation's output is cut by this rule, and so is what reads it.
  std::string cut(OpId id, const std::string& rule) {
    columns(graph_.op(id).output) = rule;
    return rule;
  }

  std::string rule_of(OpId id) {
    const Op& op = graph_.op(id);
    const std::string& before = columns_[static_cast<size_t>(op.inputs[0])];
    switch (op.kind) {
      case OpKind::embedding:
        return "vocabulary";
      case OpKind::cross_entropy:
        return before.empty() ? rest(id) : "vocabulary";
      case OpKind::matmul:
        if (!before.empty()) {
          return has_rule(id, "row(0)") ? "row(0)" : "row";  // of heads, or of columns
        }
        if (feeds_route_[static_cast<size_t>(op.output)]) {
          return rest(id);  // a router is small
        }
        return cut(id, columns_rule(op));
      case OpKind::expert_matmul:
        return before.empty() ? cut(id, "column") : "row";
      case OpKind::attention:
        return before.empty() ? "replicate" : cut(id, "head");
      case OpKind::dispatch:
      case OpKind::route:
      case OpKind::expert_counts:
      case OpKind::gate:
        return "replicate";
      case OpKind::expert_bias:  // behind rows: the summands go on, and are summed behind combine
        return before.empty() ? "partial" : cut(id, before);
      case OpKind::combine:
        return "partial";
      default:
        return !before.empty() && has_rule(id, before) ? cut(id, before) : rest(id);
    }
  }

  // The columns of a product; of several dimensions the heads, which stand before those
  // within a head.
  std::string columns_rule(const Op& op) const {
    const size_t leading = graph_.tensor(op.inputs[0]).shape.size() -
                           static_cast<size_t>(op.as<MatmulAttributes>().contract);
    const size_t columns = graph_.tensor(op.output).shape.size() - leading;
    return columns == 1 ? "column" : fmt::format("column({})", columns - 2);
  }

  const Graph& graph_;
  std::string rest_;
  std::vector<std::string> columns_;  // per tensor: the rule that cut it, if it is cut
  std::vector<bool> feeds_route_;     // per tensor
};

}  // namespace

std::vector<std::string> tensor_parallel_rules(const Graph& graph, bool along_sequence) {
  return TensorParallel(graph, along_sequence).rules();
}

}  // namespace hidup
