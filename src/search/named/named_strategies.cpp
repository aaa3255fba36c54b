#include "search/named/named_strategies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "search/named/min_comm.h"
#include "search/named/tensor_parallel.h"

namespace hidup {
namespace {

// Where parameters and the state of their optimizer lie on every axis.
enum class Storage {
  as_used,        // where the first operation that reads a parameter uses it: nothing is gathered
  state_sharded,  // parameters as they are used
  sharded,        // both
  first_rank,     // both on the first rank of the axis
};

// One rule per operation, used on every axis of the mesh.
struct UniformSharding {
  std::vector<std::string> rules;
  Storage storage = Storage::as_used;
  bool defer_gradients = false;  // Strategy::defer_gradients
};

// The batch is cut.
std::vector<std::string> data_parallel(const Graph& graph) {
  return std::vector<std::string>(graph.ops().size(), "batch");
}

// Whether the tensor is an experts' buffer, [expert, batch, capacity, column].
bool is_experts_buffer(const Graph& graph, TensorId id) {
  const std::vector<std::string>& dims = graph.tensor(id).dims;
  return dims.size() == 4 && dims[0] == "expert";
}

// Between dispatch and combine every rank computes its experts for all sequences. Dispatch and
// combine themselves work on the rank's own sequences.
std::vector<std::string> expert_parallel(const Graph& graph) {
  std::vector<std::string> rules;
  for (const Op& op : graph.ops()) {
    const bool by_expert = is_experts_buffer(graph, op.output) && op.kind != OpKind::dispatch;
    rules.emplace_back(by_expert ? "expert" : "batch");
  }
  return rules;
}

// Per parameter, where it lies as the first operation that reads it uses it.
std::vector<Layout> layouts_in_use(const Graph& graph, const Strategy& strategy) {
  std::vector<Layout> layouts(graph.tensors().size());
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    const std::vector<TensorId>& inputs = graph.ops()[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto id = static_cast<size_t>(inputs[i]);
      if (graph.tensors()[id].role == Tensor::Role::parameter && layouts[id].empty()) {
        layouts[id] = gradient_of(input_layout(strategy.ops[op], i));  // sums are stored whole
      }
    }
  }
  for (Layout& layout : layouts) {  // of parameters that no operation reads
    layout.resize(strategy.mesh.size(), Placement::replicate());
  }
  return layouts;
}

// A tensor of that shape cut along every axis, each in its longest dimension that is left.
Layout sharded_layout(Shape rest, const Mesh& mesh) {
  Layout layout;
  for (const Axis& axis : mesh) {
    const Placement shard = storage_shard(rest, axis.size);
    layout.push_back(shard);
    auto& extent = rest[static_cast<size_t>(shard.dim)];
    extent = (extent + axis.size - 1) / axis.size;  // the largest part, which the next axis cuts
  }
  return layout;
}

Strategy uniform(const Graph& graph, const Mesh& mesh, const UniformSharding& sharding) {
  Strategy strategy{.mesh = mesh, .defer_gradients = sharding.defer_gradients};
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const Rule rule = find_rule(graph, op, sharding.rules[static_cast<size_t>(op)]);
    strategy.ops.push_back({std::vector<Rule>(mesh.size(), rule)});
  }
  std::vector<Layout> in_use = layouts_in_use(graph, strategy);
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors().size()); ++id) {
    if (graph.tensor(id).role != Tensor::Role::parameter) {
      continue;
    }
    Layout storage = std::move(in_use[static_cast<size_t>(id)]);
    if (sharding.storage == Storage::first_rank) {
      storage.assign(mesh.size(), Placement::on_first_rank());
    } else if (sharding.storage == Storage::sharded) {
      storage = sharded_layout(graph.tensor(id).shape, mesh);
    }
    Layout state = sharding.storage == Storage::state_sharded
                       ? sharded_layout(graph.tensor(id).shape, mesh)
                       : storage;
    strategy.parameters.push_back({id, std::move(storage), std::move(state)});
  }
  return strategy;
}

constexpr std::array kStrategies = {
    // Parameters are replicated; gradients are all-reduced in buckets beside the backward pass.
    NamedStrategy{
        .name = "dp",
        .doc = "data parallel",
        .source = "PyTorch DDP, Li et al. 2020; Horovod, Sergeev and Del Balso 2018",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh, {.rules = data_parallel(graph)});
            },
    },
    // Gradients are reduce-scattered, updated parameters all-gathered.
    NamedStrategy{
        .name = "zero1",
        .doc = "data parallel, optimizer state sharded",
        .source = "ZeRO stage 1, Rajbhandari et al. 2020",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh,
                             {.rules = data_parallel(graph), .storage = Storage::state_sharded});
            },
    },
    // A parameter is gathered for its use, once a step.
    NamedStrategy{
        .name = "fsdp",
        .doc = "data parallel, parameters, gradients and optimizer state sharded",
        .source = "ZeRO stage 3; PyTorch FSDP, Zhao et al. 2023",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh,
                             {.rules = data_parallel(graph), .storage = Storage::sharded});
            },
    },
    // As dp, but each rank has some of the experts: all-to-alls of their buffers before and after
    // them.
    NamedStrategy{
        .name = "ep-deepspeed",
        .doc = "experts parallel over data parallel, as DeepSpeed-MoE",
        .source = "Rajbhandari et al. 2022",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh, {.rules = expert_parallel(graph)});
            },
    },
    // The same, but all gradients of replicated parameters are all-reduced after the backward pass.
    NamedStrategy{
        .name = "ep-fastmoe",
        .doc = "experts parallel over data parallel, as FastMoE",
        .source = "He et al. 2021",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh,
                             {.rules = expert_parallel(graph), .defer_gradients = true});
            },
    },
    // Attention by heads, feed-forward networks and experts by columns, then rows, embedding and
    // head by vocabulary; the batch is not cut.
    NamedStrategy{
        .name = "megatron",
        .doc = "tensor parallel",
        .source = "Megatron-LM, Shoeybi et al. 2019",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh, {.rules = tensor_parallel_rules(graph, false)});
            },
    },
    // Layer norms, dropout and residuals are cut along the sequence.
    NamedStrategy{
        .name = "megatron-sp",
        .doc = "tensor parallel, the rest parallel along the sequence",
        .source = "Korthikanti et al. 2022",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh, {.rules = tensor_parallel_rules(graph, true)});
            },
    },
    // The first rank of the axis has the parameters and updates them; it broadcasts them and
    // receives the sum of the gradients.
    NamedStrategy{
        .name = "ps",
        .doc = "parameter server on the first rank",
        .source = "Li et al. 2014",
        .shard =
            [](const Graph& graph, const Mesh& mesh) {
              return uniform(graph, mesh,
                             {.rules = data_parallel(graph), .storage = Storage::first_rank});
            },
    },
    // What searches look for that ignore overlap.
    NamedStrategy{
        .name = "min-comm",
        .doc = "the least communication volume, overlap ignored",
        .source = "FlexFlow, Jia et al. 2019; Alpa, Zheng et al. 2022",
        .shard = least_communication,
    },
};

std::vector<std::string> all_names() {
  std::vector<std::string> names(kStrategies.size());
  std::ranges::transform(kStrategies, names.begin(),
                         [](const NamedStrategy& known) { return std::string(known.name); });
  return names;
}

}  // namespace

std::span<const NamedStrategy> named_strategies() {
  return kStrategies;
}

void check_strategy_name(std::string_view name) {
  const std::vector<std::string> names = all_names();
  if (std::ranges::find(names, name) == names.end()) {
    const std::string hint = nearest(name, names);
    fail(ExitCode::usage, "--strategy {}: there is no such strategy{}; there are {}", name,
         hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint), fmt::join(names, ", "));
  }
}

Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh) {
  check_strategy_name(name);
  Strategy strategy =
      std::ranges::find(kStrategies, name, &NamedStrategy::name)->shard(graph, mesh);
  strategy.name = name;
  return strategy;
}

std::string strategy_names() {
  std::vector<std::string> names = all_names();
  const std::string last = std::move(names.back());
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

std::string strategies_help() {
  std::string text = "Strategies that have a name:";
  for (const NamedStrategy& known : kStrategies) {
    text += fmt::format("\n  {:<13} {} ({})", known.name, known.doc, known.source);
  }
  return text;
}

}  // namespace hidup
