#include "search/named.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "search/min_comm.h"

namespace hidup {
namespace {

constexpr std::array kStrategies = {
    NamedStrategy{"dp", "data parallel"},
    NamedStrategy{"zero1", "data parallel, optimizer state sharded"},
    NamedStrategy{"fsdp", "data parallel, parameters, gradients and optimizer state sharded"},
    NamedStrategy{"ep-deepspeed", "experts parallel over data parallel, as DeepSpeed-MoE"},
    NamedStrategy{"ep-fastmoe", "experts parallel over data parallel, as FastMoE"},
    NamedStrategy{"megatron", "tensor parallel"},
    NamedStrategy{"megatron-sp", "tensor parallel, the rest parallel along the sequence"},
    NamedStrategy{"ps", "parameter server on the first rank"},
    NamedStrategy{"min-comm", "the least communication volume, overlap left out of account"},
};

// What an operation does in the strategies that cut the batch.
std::string_view data_parallel(const Graph&, OpId) {
  return "batch";
}

// Whether the tensor is an experts' buffer, [batch, expert, capacity, column].
bool is_experts_buffer(const Graph& graph, TensorId id) {
  const std::vector<std::string>& dims = graph.tensor(id).dims;
  return dims.size() == 4 && dims[1] == "expert";
}

// Between dispatch and combine every rank has its experts, and all sequences; both of
// these work on the rank's own sequences.
std::string_view expert_parallel(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return is_experts_buffer(graph, op.output) && op.kind != OpKind::dispatch ? "expert" : "batch";
}

// Rules of tensor parallelism. A product whose columns feed a product of rows, maybe with
// operations in between that work on columns alone, is cut so that the two need one sum.
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
    for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
      rules_.push_back(rule_of(id));
    }
  }

  const std::string& operator()(OpId id) const { return rules_.at(static_cast<size_t>(id)); }

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
  std::vector<std::string> rules_;
};

// Per parameter, where it lies as the first operation that reads it uses it: nothing is gathered.
std::vector<Layout> layouts_in_use(const Graph& graph, const Strategy& strategy) {
  std::vector<Layout> layouts(graph.tensors().size());
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    const std::vector<TensorId>& inputs = graph.ops()[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto id = static_cast<size_t>(inputs[i]);
      if (graph.tensors()[id].role == Tensor::Role::parameter && layouts[id].empty()) {
        layouts[id] = input_layout(strategy.ops[op], i);
        std::ranges::replace_if(
            layouts[id], [](const Placement& p) { return p.is_partial(); }, Placement::replicate());
      }
    }
  }
  for (Layout& layout : layouts) {  // of parameters that nobody reads
    layout.resize(strategy.mesh.size(), Placement::replicate());
  }
  return layouts;
}

}  // namespace

std::span<const NamedStrategy> named_strategies() {
  return kStrategies;
}

void check_strategy_name(std::string_view name) {
  std::vector<std::string> names(kStrategies.size());
  std::ranges::transform(kStrategies, names.begin(),
                         [](const NamedStrategy& known) { return std::string(known.name); });
  if (std::ranges::find(names, name) == names.end()) {
    const std::string hint = nearest(name, names);
    fail(ExitCode::usage, "--strategy {}: there is no such strategy{}; there are {}", name,
         hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint), fmt::join(names, ", "));
  }
}

Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh) {
  check_strategy_name(name);
  if (name == "min-comm") {
    return least_communication(graph, mesh);
  }
  Strategy strategy{.name = std::string(name), .mesh = mesh};
  const bool tensor_parallel = name.starts_with("megatron");
  std::optional<TensorParallel> megatron;
  if (tensor_parallel) {
    megatron.emplace(graph, name == "megatron-sp");
  }
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const std::string_view rule = tensor_parallel           ? (*megatron)(op)
                                  : name.starts_with("ep-") ? expert_parallel(graph, op)
                                                            : data_parallel(graph, op);
    strategy.ops.push_back({std::vector<Rule>(mesh.size(), find_rule(graph, op, rule))});
  }
  strategy.defer_gradients = name == "ep-fastmoe";
  std::vector<Layout> in_use = layouts_in_use(graph, strategy);
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors().size()); ++id) {
    if (graph.tensor(id).role != Tensor::Role::parameter) {
      continue;
    }
    ParameterStrategy parameter{id, std::move(in_use[static_cast<size_t>(id)]), {}};
    if (name == "ps") {
      parameter.storage.assign(mesh.size(), Placement::on_first_rank());
    }
    parameter.optimizer_state = parameter.storage;
    if (name == "zero1" || name == "fsdp") {
      Shape rest = graph.tensor(id).shape;
      for (size_t axis = 0; axis < mesh.size(); ++axis) {
        const Placement shard = storage_shard(rest, mesh[axis].size);
        parameter.optimizer_state[axis] = shard;
        auto& extent = rest[static_cast<size_t>(shard.dim)];
        extent = (extent + mesh[axis].size - 1) / mesh[axis].size;  // what the next axis cuts
      }
      if (name == "fsdp") {
        parameter.storage = parameter.optimizer_state;
      }
    }
    strategy.parameters.push_back(std::move(parameter));
  }
  return strategy;
}

}  // namespace hidup
