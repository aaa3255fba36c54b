#include "sharding/read_strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <span>

#include "core/text.h"
#include "graph/batch.h"
#include "graph/text.h"
#include "yaml/fields.h"

namespace hidup {
namespace {

using Kind = YamlNode::Kind;

class StrategyReader {
 public:
  StrategyReader(const Graph& graph, const Mesh& mesh, const std::string& source)
      : graph_(graph), mesh_(mesh) {
    problems_.add_source(source);
  }

  Strategy read(const std::string& text) {
    const YamlNode root = parse_yaml_map(text, "a strategy", problems_);
    const YamlFields fields = fields_of(root,
                                        {"format_version", "graph_hash", "mesh", "name",
                                         "microbatches", "gradients", "operations", "parameters"},
                                        {"stages", "predicted"});
    read_head(fields);
    problems_.throw_if_any();  // what follows would only repeat it
    read_operations(fields.at("operations"));
    read_parameters(fields.at("parameters"));
    read_stages(fields.at("stages"));
    read_prediction(fields.at("predicted"));
    problems_.throw_if_any();
    return std::move(strategy_);
  }

 private:
  void report(const YamlNode& node, const std::string& message) {
    problems_.add({0, node.line, node.column}, message);
  }

  YamlFields fields_of(const YamlNode& map, std::initializer_list<const char*> known,
                       std::initializer_list<const char*> optional = {}) {
    return hidup::fields_of(map, known, optional, problems_);
  }

  void expect_text(const YamlNode& node, std::string_view key, const std::string& wanted,
                   std::string_view why) {
    if (node.kind != Kind::scalar || node.text != wanted) {
      report(node, fmt::format("{}: expected {}, found {}{}", key, wanted,
                               node.kind == Kind::scalar ? node.text : "something else", why));
    }
  }

  void read_head(const YamlFields& fields) {
    if (!problems_.empty()) {
      return;
    }
    expect_text(fields.at("format_version"), "format_version", "1", "");
    expect_text(fields.at("graph_hash"), "graph_hash", fmt::format("{:016x}", graph_hash(graph_)),
                ": the strategy was made for another graph (model sizes, batch or vocabulary)");
    read_microbatches(fields.at("microbatches"));
    read_mesh(fields.at("mesh"));
    strategy_.mesh = mesh_;
    strategy_.name = fields.at("name").text;
    if (fields.at("name").kind != Kind::scalar) {
      report(fields.at("name"), "name: expected a word");
    }
    const YamlNode& gradients = fields.at("gradients");
    if (gradients.text != "overlapped" && gradients.text != "deferred") {
      report(gradients, "gradients: expected overlapped or deferred");
    }
    strategy_.defer_gradients = gradients.text == "deferred";
  }

  void read_microbatches(const YamlNode& node) {
    const auto [end, status] = std::from_chars(
        node.text.data(), node.text.data() + node.text.size(), strategy_.microbatches);
    if (status != std::errc() || end != node.text.data() + node.text.size() ||
        strategy_.microbatches < 1) {
      report(node, "microbatches: expected a whole number of at least 1");
    } else if (const std::string obstacle = batch_obstacle(graph_);
               strategy_.microbatches > 1 && !obstacle.empty()) {
      report(node,
             fmt::format("microbatches: the batch of this graph cannot be split: {}", obstacle));
    }
  }

  void read_mesh(const YamlNode& node) {
    std::vector<std::string> found;
    for (const YamlNode& axis : node.values) {
      const YamlFields fields = fields_of(axis, {"name", "size"});
      found.push_back(fmt::format("{}={}", fields.at("name").text, fields.at("size").text));
    }
    std::vector<std::string> wanted;
    for (const Axis& axis : mesh_) {
      wanted.push_back(fmt::format("{}={}", axis.name, axis.size));
    }
    if (node.kind != Kind::list || found != wanted) {
      report(node, fmt::format("mesh: expected {} of the cluster and its ranks, found {}",
                               fmt::join(wanted, " "), fmt::join(found, " ")));
    }
  }

  void read_operations(const YamlNode& node) {
    if (node.kind != Kind::list || node.values.size() != graph_.ops().size()) {
      report(node, fmt::format("operations: expected a list of the graph's {} operations, found {}",
                               graph_.ops().size(), node.values.size()));
      return;
    }
    for (size_t i = 0; i < node.values.size(); ++i) {
      read_operation(node.values[i], static_cast<OpId>(i));
    }
  }

  void read_operation(const YamlNode& node, OpId id) {
    const std::string& name = graph_.op_name(id);
    const YamlFields fields = fields_of(node, {"op", "rule"}, {"inputs", "outputs"});
    if (fields.at("op").text != name) {
      report(node, fmt::format("op: expected {}, the next operation of the graph, found {}", name,
                               fields.at("op").text));
      return;
    }
    const YamlNode& rules = fields.at("rule");
    if (rules.kind != Kind::list || rules.values.size() != mesh_.size()) {
      report(rules, fmt::format("{}: rule: expected a list of {} rule(s), one per axis", name,
                                mesh_.size()));
      return;
    }
    OpStrategy op;
    for (const YamlNode& rule : rules.values) {
      if (const std::optional<Rule> legal = read_rule(rule, id)) {
        op.rules.push_back(*legal);
      }
    }
    if (op.rules.size() == mesh_.size()) {
      check_placements(fields, id, op);
    }
    strategy_.ops.push_back(std::move(op));
  }

  std::optional<Rule> read_rule(const YamlNode& node, OpId id) {
    std::vector<std::string> names;
    for (const Rule& rule : rules_of(graph_, id)) {
      if (rule.name == node.text) {
        return rule;
      }
      names.push_back(rule.name);
    }
    const std::string hint = nearest(node.text, names);
    report(node, fmt::format("{} cannot be sharded by {}{}; legal rules: {}", graph_.op_name(id),
                             node.text.empty() ? "nothing" : node.text,
                             hint.empty() ? "" : fmt::format(": did you mean {}?", hint),
                             fmt::join(names, ", ")));
    return std::nullopt;
  }

  // A list of layouts, as the rule has them.
  void check_placements(const YamlFields& fields, OpId id, const OpStrategy& op) {
    std::vector<Layout> inputs;
    for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
      inputs.push_back(input_layout(op, i));
    }
    compare(fields.at("inputs"), "inputs", id, op, inputs);
    compare(fields.at("outputs"), "outputs", id, op, {output_layout(op)});
  }

  void compare(const YamlNode& node, std::string_view key, OpId id, const OpStrategy& op,
               const std::vector<Layout>& wanted) {
    if (node.kind == Kind::null) {
      return;
    }
    std::vector<Layout> found;
    for (const YamlNode& layout : node.values) {
      found.push_back(read_layout(layout, fmt::format("{}: {}", graph_.op_name(id), key)));
    }
    if (found == wanted) {
      return;
    }
    std::vector<std::string> texts;
    texts.reserve(wanted.size());
    for (const Layout& layout : wanted) {
      texts.push_back(print_layout(layout));
    }
    std::vector<std::string> rules;
    for (const Rule& rule : op.rules) {
      rules.push_back(rule.name);
    }
    report(node,
           fmt::format("{}: the rule {} has the {} [{}]; change the rule, and leave inputs "
                       "and outputs out or make them the rule's",
                       graph_.op_name(id), fmt::join(rules, ", "), key, fmt::join(texts, ", ")));
  }

  Layout read_layout(const YamlNode& node, const std::string& what) {
    Layout layout;
    for (const YamlNode& item : node.values) {
      const std::optional<Placement> placement = parse_placement(item.text);
      if (!placement) {
        report(item, fmt::format("{}: expected R, S(dimension) or P, found {}", what,
                                 item.text.empty() ? "nothing" : item.text));
      }
      layout.push_back(placement.value_or(Placement::replicate()));
    }
    if (node.kind != Kind::list || layout.size() != mesh_.size()) {
      report(node, fmt::format("{}: expected a list of {} placement(s), one per axis", what,
                               mesh_.size()));
      layout.assign(mesh_.size(), Placement::replicate());
    }
    return layout;
  }

  void read_parameters(const YamlNode& node) {
    std::vector<TensorId> wanted;
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
      if (graph_.tensor(id).role == Tensor::Role::parameter) {
        wanted.push_back(id);
      }
    }
    if (node.kind != Kind::list || node.values.size() != wanted.size()) {
      report(node, fmt::format("parameters: expected a list of the graph's {} parameters, found {}",
                               wanted.size(), node.values.size()));
      return;
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Tensor& tensor = graph_.tensor(wanted[i]);
      const YamlFields fields = fields_of(node.values[i], {"name", "storage", "optimizer_state"});
      if (fields.at("name").text != tensor.name) {
        report(node.values[i], fmt::format("name: expected {}, the next parameter of the graph, "
                                           "found {}",
                                           tensor.name, fields.at("name").text));
        continue;
      }
      strategy_.parameters.push_back(
          {wanted[i], read_storage(fields.at("storage"), tensor, "storage"),
           read_storage(fields.at("optimizer_state"), tensor, "optimizer_state")});
    }
  }

  void read_stages(const YamlNode& node) {
    for (const YamlNode& item : node.values) {
      const TensorId output = graph_.find(item.text);
      if (output < 0 || graph_.tensor(output).producer < 0) {
        report(item, fmt::format("stages: the graph has no operation {}", item.text));
      } else {
        strategy_.stages.push_back(graph_.tensor(output).producer);
      }
    }
  }

  void read_prediction(const YamlNode& node) {
    if (node.kind == Kind::null) {
      return;
    }
    const YamlFields fields =
        fields_of(node, {"iteration_s", "compute_s", "comm_s", "exposed_comm_s", "peak_bytes"});
    const auto seconds = [&](const char* key) { return number_of(fields.at(key), key, problems_); };
    strategy_.predicted = {
        .iteration_s = seconds("iteration_s"),
        .compute_s = seconds("compute_s"),
        .comm_s = seconds("comm_s"),
        .exposed_comm_s = seconds("exposed_comm_s"),
        .peak_bytes = whole_of(fields.at("peak_bytes"), "peak_bytes", problems_)};
  }

  Layout read_storage(const YamlNode& node, const Tensor& tensor, std::string_view key) {
    const std::string what = fmt::format("{}: {}", tensor.name, key);
    Layout layout = read_layout(node, what);
    for (const Placement& placement : layout) {
      const bool fits =
          placement.is_replicate() ||
          (placement.is_shard() && placement.dim < static_cast<int>(tensor.shape.size()));
      if (!fits) {
        report(node, fmt::format("{} cannot be {}: a parameter of {} dimension(s) is stored R or "
                                 "S(0) to S({})",
                                 what, to_string(placement), tensor.shape.size(),
                                 tensor.shape.size() - 1));
      }
    }
    return layout;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  Problems problems_;
  Strategy strategy_;
};

}  // namespace

Strategy parse_strategy(const Graph& graph, const Mesh& mesh, const std::string& text,
                        const std::string& source) {
  return StrategyReader(graph, mesh, source).read(text);
}

}  // namespace hidup
