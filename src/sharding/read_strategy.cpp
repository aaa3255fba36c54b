#include "sharding/read_strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.h"
#include "sharding/read_schedule.h"
#include "sharding/strategy_fields.h"

namespace hidup {
namespace {

using Kind = YamlNode::Kind;

class StrategyReader : private StrategyFields {
 public:
  using StrategyFields::StrategyFields;

  Strategy read(const std::string& text) {
    const YamlNode root =
        parse_yaml_map(text, "a strategy: a map that begins with format_version", problems());
    const YamlFields fields = fields_of(
        root,
        {"format_version", "graph_hash", "mesh", "name", "microbatches", "gradients", "operations",
         "parameters"},
        {"accumulate", "shares", "schedule", "routes", "algorithms", "stages", "predicted"});
    version_ = fields.at("format_version");
    read_head(fields);
    problems().throw_if_any();  // further problems would only repeat it
    read_operations(fields.at("operations"));
    read_parameters(fields.at("parameters"));
    if (is_list_of_format_2(fields, "routes", "{from, to, bytes, steps}")) {
      read_routes(fields.at("routes"));
    }
    if (is_list_of_format_2(fields, "algorithms", "{collective, axis, bytes, algorithm}")) {
      read_algorithms(fields.at("algorithms"));
    }
    if (is_of_format_2(fields.at("schedule"), "schedule")) {
      problems().throw_if_any();  // the schedule is proven with the rest of the strategy
      strategy_.schedule = read_schedule(fields.at("schedule"), strategy_, *this);
    }
    read_stages(fields.at("stages"));
    read_prediction(fields.at("predicted"));
    problems().throw_if_any();
    return std::move(strategy_);
  }

 private:
  void read_head(const YamlFields& fields) {
    if (!problems().empty()) {
      return;
    }
    check_version(fields.at("format_version"));
    check_graph(fields.at("graph_hash"));
    strategy_.microbatches = read_microbatches(fields.at("microbatches"));
    if (is_of_format_2(fields.at("accumulate"), "accumulate")) {
      strategy_.accumulate = read_accumulate(fields.at("accumulate"), strategy_.microbatches);
    }
    check_mesh(fields.at("mesh"));
    read_shares(fields.at("shares"), fields.at("format_version"));
    strategy_.mesh = mesh();
    const YamlNode& name = fields.at("name");
    strategy_.name = name.text;
    if (name.kind != Kind::scalar || shown(name.text) != name.text) {
      report(name, fmt::format("name: expected a word of at most {} characters, found {}",
                               kLongestQuote, found(name)));
    }
    strategy_.defer_gradients = read_deferred(fields.at("gradients"));
  }

  void read_operations(const YamlNode& node) {
    if (node.kind != Kind::list || node.values.size() != graph().ops().size()) {
      report(node, fmt::format("operations: expected a list of the graph's {} operations, found {}",
                               graph().ops().size(), node.values.size()));
      return;
    }
    for (size_t i = 0; i < node.values.size(); ++i) {
      read_operation(node.values[i], static_cast<OpId>(i));
    }
  }

  void read_operation(const YamlNode& node, OpId id) {
    const std::string& name = graph().op_name(id);
    const YamlFields fields = fields_of(node, {"op", "rule"}, {"inputs", "outputs", "recompute"});
    if (fields.at("op").text != name) {
      report(node, fmt::format("op: expected {}, the next operation of the graph, found {}", name,
                               found(fields.at("op"))));
      return;
    }
    const YamlNode& rules = fields.at("rule");
    if (!check_rules(rules, name)) {
      return;
    }
    OpStrategy op;
    for (size_t axis = 0; axis < mesh().size(); ++axis) {
      if (const std::optional<Rule> legal = read_rule(rules.values[axis], id, axis)) {
        op.rules.push_back(*legal);
      }
    }
    if (op.rules.size() == mesh().size()) {
      check_placements(fields, id, op);
    }
    if (is_of_format_2(fields.at("recompute"), "recompute")) {
      op.recompute = read_recompute(fields.at("recompute"), id);
    }
    strategy_.ops.push_back(std::move(op));
  }

  void read_parameters(const YamlNode& node) {
    std::vector<TensorId> wanted;
    for (TensorId id = 0; id < static_cast<TensorId>(graph().tensors().size()); ++id) {
      if (graph().tensor(id).role == Tensor::Role::parameter) {
        wanted.push_back(id);
      }
    }
    if (node.kind != Kind::list || node.values.size() != wanted.size()) {
      report(node, fmt::format("parameters: expected a list of the graph's {} parameters, found {}",
                               wanted.size(), node.values.size()));
      return;
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Tensor& tensor = graph().tensor(wanted[i]);
      const YamlFields fields = fields_of(node.values[i], {"name", "storage", "optimizer_state"},
                                          {kReshardAfterForward, kKept});
      if (fields.at("name").text != tensor.name) {
        report(node.values[i], fmt::format("name: expected {}, the next parameter of the graph, "
                                           "found {}",
                                           tensor.name, found(fields.at("name"))));
        continue;
      }
      strategy_.parameters.push_back(
          {wanted[i], read_storage(fields.at("storage"), tensor, "storage"),
           read_storage(fields.at("optimizer_state"), tensor, "optimizer_state")});
      for (const char* key : {kReshardAfterForward, kKept}) {
        is_of_format_2(fields.at(key), key);
      }
      strategy_.parameters.back().residency =
          read_residency(fields, tensor.name).value_or(Residency::step);
    }
  }

  void read_stages(const YamlNode& node) {
    if (node.kind != Kind::list && node.kind != Kind::null) {
      report(node, "stages: expected a list of operations, with which stages begin");
    }
    for (const YamlNode& item : node.values) {
      const TensorId output = graph().find(item.text);
      if (output < 0 || graph().tensor(output).producer < 0) {
        report(item, fmt::format("stages: the graph has no operation {}", found(item)));
      } else {
        strategy_.stages.push_back(graph().tensor(output).producer);
      }
    }
  }

  // Returns true if the key is given.
  bool is_of_format_2(const YamlNode& node, const char* key) {
    if (node.kind == Kind::null) {
      return false;
    }
    check_format_2(node, key, version_);
    return true;
  }

  // Returns true if the key is given. Reports a value that is not a list.
  bool is_list_of_format_2(const YamlFields& fields, const char* key, const char* items) {
    const YamlNode& node = fields.at(key);
    if (!is_of_format_2(node, key)) {
      return false;
    }
    if (node.kind != Kind::list) {
      report(node, fmt::format("{}: expected a list of {}", key, items));
    }
    return true;
  }

  void read_routes(const YamlNode& node) {
    for (const YamlNode& item : node.values) {
      const YamlFields fields = fields_of(item, {"from", "to", "bytes", "steps"});
      if (!problems().empty()) {
        return;
      }
      RouteChoice choice{.from = read_layout(fields.at("from"), "routes: from"),
                         .to = read_layout(fields.at("to"), "routes: to"),
                         .bytes = number_of(fields.at("bytes"), "bytes", problems())};
      read_steps(fields.at("steps"), choice);
      strategy_.routes.push_back(std::move(choice));
    }
  }

  // Reads one of the routes between the two layouts.
  void read_steps(const YamlNode& node, RouteChoice& choice) {
    std::vector<std::string> steps;
    for (const YamlNode& step : node.values) {
      steps.push_back(step.text);
    }
    const std::string wanted = fmt::format("{}", fmt::join(steps, ", "));
    std::vector<std::string> known;
    for (const Route& route : reshard_routes(choice.from, choice.to, mesh())) {
      known.push_back(fmt::format("[{}]", to_string(route, mesh())));
      if (node.kind == Kind::list && known.back() == fmt::format("[{}]", wanted)) {
        choice.steps = route;
        return;
      }
    }
    report(node,
           fmt::format("routes: from {} to {} there are {}, found [{}]", print_layout(choice.from),
                       print_layout(choice.to), fmt::join(known, " and "), shown(wanted)));
  }

  void read_algorithms(const YamlNode& node) {
    for (const YamlNode& item : node.values) {
      const YamlFields fields = fields_of(item, {"collective", "axis", "bytes", "algorithm"});
      if (!problems().empty()) {
        return;
      }
      const auto axis = std::ranges::find(mesh(), fields.at("axis").text, &Axis::name);
      if (axis == mesh().end()) {
        report(fields.at("axis"),
               fmt::format("algorithms: axis: the mesh has no {}", found(fields.at("axis"))));
        return;
      }
      const ReshardKind collective = read_collective(fields.at("collective"));
      strategy_.algorithms.push_back(
          {.collective = collective,
           .axis = static_cast<size_t>(axis - mesh().begin()),
           .bytes = number_of(fields.at("bytes"), "bytes", problems()),
           .algorithm = read_algorithm(fields.at("algorithm"), collective)});
    }
  }

  ReshardKind read_collective(const YamlNode& node) {
    std::vector<std::string_view> known;
    for (const ReshardKind kind : kReshardKinds) {
      if (algorithms_of(kind).size() > 1) {
        known.push_back(name_of(kind));
        if (node.text == known.back()) {
          return kind;
        }
      }
    }
    report(node, fmt::format("algorithms: collective: expected {}, found {}",
                             fmt::join(known, ", "), found(node)));
    return ReshardKind::all_reduce;
  }

  CollectiveAlgorithm read_algorithm(const YamlNode& node, ReshardKind collective) {
    std::vector<std::string_view> known;
    for (const CollectiveAlgorithm algorithm : algorithms_of(collective)) {
      known.push_back(name_of(algorithm));
      if (node.text == known.back()) {
        return algorithm;
      }
    }
    report(node, fmt::format("algorithms: {} can be done by {}, found {}", name_of(collective),
                             fmt::join(known, ", "), found(node)));
    return CollectiveAlgorithm::automatic;
  }

  void read_prediction(const YamlNode& node) {
    if (node.kind == Kind::null) {
      return;
    }
    const YamlFields fields =
        fields_of(node, {"iteration_s", "compute_s", "comm_s", "exposed_comm_s", "peak_bytes"});
    const auto seconds = [&](const char* key) {
      return number_of(fields.at(key), key, problems());
    };
    strategy_.predicted = {
        .iteration_s = seconds("iteration_s"),
        .compute_s = seconds("compute_s"),
        .comm_s = seconds("comm_s"),
        .exposed_comm_s = seconds("exposed_comm_s"),
        .peak_bytes = whole_of(fields.at("peak_bytes"), "peak_bytes", problems())};
  }

  Strategy strategy_;
  YamlNode version_;  // format_version
};

}  // namespace

Strategy parse_strategy(const Graph& graph, const Mesh& mesh, const std::string& text,
                        const std::string& source) {
  return StrategyReader(graph, mesh, source).read(text);
}

}  // namespace hidup
