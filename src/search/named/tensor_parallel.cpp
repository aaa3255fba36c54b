#include "search/named/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/operation.h"
#include "sharding/rules.h"

namespace hidup {
namespace {

class TensorParallel {
 public:
  TensorParallel(const Graph& graph, bool along_sequence)
      : graph_(graph), rest_(along_sequence ? "sequence" : "replicate") {
    columns_.assign(graph.tensors().size(), "");
    find_grouped();
    is_sum_.assign(graph.tensors().size(), false);
    feeds_route_.assign(graph.tensors().size(), false);
    for (const Op& op : graph.ops()) {
      for (const TensorId input : op.inputs) {
        if (is_route(op)) {
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
      const Op& op = graph_.op(id);
      is_sum_[static_cast<size_t>(op.output)] =
          op.kind != OpKind::embedding && leaves_sums(id, rules.back());
    }
    return rules;
  }

 private:
  // The use of a product's output in a grouped attention.
  enum class Role { none, query, key_value };

  // Passes roles backward from an attention through rotary positions to the products.
  void find_grouped() {
    role_.assign(graph_.tensors().size(), Role::none);
    const auto role_of = [this](TensorId id) -> Role& { return role_[static_cast<size_t>(id)]; };
    for (auto op = graph_.ops().rbegin(); op != graph_.ops().rend(); ++op) {
      if (op->kind == OpKind::grouped_attention) {
        role_of(op->inputs[0]) = Role::query;
        role_of(op->inputs[1]) = Role::key_value;
        role_of(op->inputs[2]) = Role::key_value;
      } else if (op->kind == OpKind::rotary) {
        role_of(op->inputs[0]) = role_of(op->output);
      }
    }
  }

  std::string& columns(TensorId id) { return columns_.at(static_cast<size_t>(id)); }
  bool has_rule(OpId id, const std::string& name) const {
    return std::ranges::any_of(rules_of(graph_, id),
                               [&](const Rule& rule) { return rule.name == name; });
  }
  bool leaves_sums(OpId id, const std::string& name) const {
    return std::ranges::any_of(rules_of(graph_, id), [&](const Rule& rule) {
      return rule.name == name && rule.output.is_partial();
    });
  }
  std::string rest(OpId id) const { return has_rule(id, rest_) ? rest_ : "replicate"; }
  // Cuts the operation's output by this rule, which its readers then follow.
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
      case OpKind::wide_matmul:
        if (!before.empty()) {
          return row_rule(id, before);
        }
        if (feeds_route_[static_cast<size_t>(op.output)]) {
          return rest(id);  // a router is small
        }
        return columns_rule(op).empty() ? "replicate" : cut(id, columns_rule(op));
      case OpKind::expert_matmul:
        return before.empty() ? cut(id, "column") : "row";
      case OpKind::attention:
        return before.empty() ? "replicate" : cut(id, "head");
      case OpKind::grouped_attention:
        return before.empty() ? "replicate" : cut(id, before == "column(0)" ? "kv_head" : "head");
      case OpKind::dispatch:
      case OpKind::expert_pack:
      case OpKind::route:
      case OpKind::route_biased:
      case OpKind::route_chosen:
      case OpKind::expert_counts:
      case OpKind::round_counts:
      case OpKind::gate:
        return "replicate";
      case OpKind::expert_bias:  // after rows: passes on summands, which are summed after combine
        return before.empty() ? "partial" : cut(id, before);
      case OpKind::add:  // sums what two branches leave as summands once, such as shared experts'
        return is_sum_[static_cast<size_t>(op.inputs[0])] &&
                       is_sum_[static_cast<size_t>(op.inputs[1])]
                   ? "partial"
                   : follow(id, before);
      case OpKind::combine:
      case OpKind::expert_unpack:
        return "partial";
      default:
        return follow(id, before);
    }
  }

  // Cuts as the first input where the operation can, otherwise as the rest.
  std::string follow(OpId id, const std::string& before) {
    return !before.empty() && has_rule(id, before) ? cut(id, before) : rest(id);
  }

  // Returns the rule for rows of heads or columns; for grouped heads, as the attention is cut.
  std::string row_rule(OpId id, const std::string& before) const {
    if (has_rule(id, "row(2)")) {
      return before == "head" ? "row(1)" : "row(0)";
    }
    return has_rule(id, "row(0)") ? "row(0)" : "row";
  }

  // Returns the rule for the columns of a product: with several dimensions, the heads, which
  // precede the dimension within a head. In grouped attention these are the heads of keys and
  // values; with only one, the queries' heads, and no rule for keys and values.
  std::string columns_rule(const Op& op) const {
    const Shape& output = graph_.tensor(op.output).shape;
    const size_t leading = graph_.tensor(op.inputs[0]).shape.size() -
                           static_cast<size_t>(op.as<MatmulAttributes>().contract);
    const size_t columns = output.size() - leading;
    if (columns == 1) {
      return "column";
    }
    const Role role = role_[static_cast<size_t>(op.output)];
    if (role == Role::none) {
      return fmt::format("column({})", columns - 2);
    }
    if (output[leading] > 1) {
      return "column(0)";
    }
    return role == Role::query ? "column(1)" : "";
  }

  const Graph& graph_;
  std::string rest_;
  std::vector<std::string> columns_;  // per tensor: the rule that cut it; empty: not cut
  std::vector<bool> feeds_route_;     // per tensor
  std::vector<bool> is_sum_;          // per tensor: ranks have summands of it
  std::vector<Role> role_;            // per tensor
};

}  // namespace

std::vector<std::string> tensor_parallel_rules(const Graph& graph, bool along_sequence) {
  return TensorParallel(graph, along_sequence).rules();
}

}  // namespace hidup
