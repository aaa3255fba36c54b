#include "search/named/named_strategies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "search/named/combination.h"
#include "search/named/min_comm.h"
#include "search/named/rules_by_name.h"
#include "search/named/tensor_parallel.h"

namespace hidup {
namespace {

// Cuts the batch.
std::vector<std::string> data_parallel(const Graph& graph, const Axis& /*axis*/) {
  return std::vector<std::string>(graph.ops().size(), "batch");
}

// Returns true for a buffer of experts, [expert, batch, capacity, column].
bool is_experts_buffer(const Graph& graph, TensorId id) {
  const std::vector<std::string>& dims = graph.tensor(id).dims;
  return dims.size() == 4 && dims[0] == "expert";
}

// Cuts by experts between dispatch and combine, for all sequences. Dispatch and combine themselves
// work on the rank's own sequences.
std::vector<std::string> expert_parallel(const Graph& graph, const Axis& /*axis*/) {
  std::vector<std::string> rules;
  for (const Op& op : graph.ops()) {
    const bool by_expert = is_experts_buffer(graph, op.output) && op.kind != OpKind::dispatch &&
                           op.kind != OpKind::expert_pack;
    rules.emplace_back(by_expert ? "expert" : "batch");
  }
  return rules;
}

std::vector<std::string> megatron(const Graph& graph, const Axis& /*axis*/) {
  return tensor_parallel_rules(graph, false);
}
std::vector<std::string> megatron_sp(const Graph& graph, const Axis& /*axis*/) {
  return tensor_parallel_rules(graph, true);
}

// Every rank of the axis computes everything, until with_stages() divides it.
std::vector<std::string> whole(const Graph& graph, const Axis& /*axis*/) {
  return std::vector<std::string>(graph.ops().size(), "replicate");
}

// Returns the rules for the axis by itself, as if it were the only one.
std::vector<std::string> least_on_axis(const Graph& graph, const Axis& axis) {
  std::vector<std::string> rules;
  for (const OpStrategy& op : least_communication(graph, {{axis.name, axis.size}}).ops) {
    rules.push_back(op.rules[0].name);
  }
  return rules;
}

constexpr std::array kStrategies = {
    // Replicates parameters, and all-reduces gradients in buckets beside the backward pass.
    NamedStrategy{
        .name = "dp",
        .doc = "data parallel",
        .source = "PyTorch DDP, Li et al. 2020; Horovod, Sergeev and Del Balso 2018",
        .rules = data_parallel,
    },
    // The same with equal parts wherever devices differ: a baseline of HAP.
    NamedStrategy{
        .name = "dp-ev",
        .doc = "dp, called so beside dp-cp",
        .source = "HAP, Zhang et al. 2024",
        .rules = data_parallel,
        .same_as = "dp",
    },
    // Gives a rank as much of the batch as it computes in proportion to the others.
    NamedStrategy{
        .name = "dp-cp",
        .doc = "data parallel, parts in proportion to the flops of unequal devices",
        .source = "HAP, Zhang et al. 2024",
        .rules = data_parallel,
        .by_pace = true,
    },
    // Reduce-scatters gradients, and all-gathers updated parameters.
    NamedStrategy{
        .name = "zero1",
        .doc = "data parallel, optimizer state sharded",
        .source = "ZeRO stage 1, Rajbhandari et al. 2020",
        .rules = data_parallel,
        .storage = Storage::state_sharded,
    },
    // Gathers a parameter for the forward pass, and again for the backward pass, as PyTorch does
    // with reshard_after_forward.
    NamedStrategy{
        .name = "fsdp",
        .doc = "data parallel, parameters, gradients and optimizer state sharded",
        .source = "ZeRO stage 3; PyTorch FSDP, Zhao et al. 2023",
        .rules = data_parallel,
        .storage = Storage::sharded,
        .residency = Residency::pass,
    },
    // Gathers a parameter once a step, and holds it until the backward pass; else like fsdp.
    NamedStrategy{
        .name = "fsdp-kept",
        .doc = "fsdp, but parameters gathered once a step",
        .source = "PyTorch FSDP without reshard_after_forward",
        .rules = data_parallel,
        .storage = Storage::sharded,
    },
    // Sends parameters only over the innermost, fastest links. The ranks of the other axes then
    // all-reduce the gradients of their parts, as in PyTorch's HYBRID_SHARD and in fully_shard() on
    // a two-dimensional mesh; on one dimension that is FSDP.
    NamedStrategy{
        .name = "hsdp",
        .doc = "hybrid: fsdp on the innermost axis, dp on the others; on one axis fsdp",
        .source = "PyTorch HSDP, Zhao et al. 2023",
        .rules = data_parallel,
        .storage = Storage::sharded,
        .residency = Residency::pass,
        .on_outer_axes = "dp",
    },
    // Gives each rank some experts, with all-to-alls before and after them; else like dp.
    NamedStrategy{
        .name = "ep-deepspeed",
        .doc = "experts parallel over data parallel, as DeepSpeed-MoE",
        .source = "Rajbhandari et al. 2022",
        .rules = expert_parallel,
        .of_experts = true,
    },
    // All-reduces gradients of replicated parameters after the backward pass; else as ep-deepspeed.
    NamedStrategy{
        .name = "ep-fastmoe",
        .doc = "experts parallel over data parallel, as FastMoE",
        .source = "He et al. 2021",
        .rules = expert_parallel,
        .defer_gradients = true,
        .of_experts = true,
    },
    // Cuts attention by heads, feed-forward networks and experts by columns, then rows, and
    // embedding and head by vocabulary, but not the batch.
    NamedStrategy{
        .name = "megatron",
        .doc = "tensor parallel",
        .source = "Megatron-LM, Shoeybi et al. 2019",
        .rules = megatron,
    },
    // Cuts layer norms, dropout and residuals along the sequence; else like megatron.
    NamedStrategy{
        .name = "megatron-sp",
        .doc = "tensor parallel, the rest parallel along the sequence",
        .source = "Korthikanti et al. 2022",
        .rules = megatron_sp,
    },
    // Stores and updates parameters on the first rank of the axis, which broadcasts them and
    // receives the sum of gradients.
    NamedStrategy{
        .name = "ps",
        .doc = "parameter server on the first rank",
        .source = "Li et al. 2014",
        .rules = data_parallel,
        .storage = Storage::first_rank,
    },
    // Gives each rank a stage. Values pass from stage to stage, microbatch by microbatch.
    NamedStrategy{
        .name = "pipeline",
        .doc =
            "a stage of the model per rank, in the order of train.pipeline; along the outermost of "
            "several axes, with dp along the others",
        .source = "GPipe, Huang et al. 2019; PipeDream, Narayanan et al. 2019",
        .rules = whole,
        .of_stages = true,
    },
    // Minimizes communication volume, like searches that ignore overlap.
    NamedStrategy{
        .name = "min-comm",
        .doc = "the least communication volume, overlap ignored",
        .source = "FlexFlow, Jia et al. 2019; Alpa, Zheng et al. 2022",
        .rules = least_on_axis,
        .by_axis = true,
        .whole = least_communication,
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

const NamedStrategy* find_strategy(std::string_view name) {
  const auto found = std::ranges::find(kStrategies, name, &NamedStrategy::name);
  return found == kStrategies.end() ? nullptr : &*found;
}

void fail_unknown_strategy(std::string_view choice, std::string_view name) {
  const std::vector<std::string> names = all_names();
  const std::string hint = nearest(name, names);
  fail(ExitCode::usage, "--strategy {}: there is no {}{}; there are {}", shown(choice),
       choice == name ? "such strategy" : fmt::format("strategy {}", shown(name)),
       hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint), fmt::join(names, ", "));
}

void check_strategy_name(std::string_view name) {
  if (is_combination(name)) {
    check_combination(name);
  } else if (find_strategy(name) == nullptr) {
    fail_unknown_strategy(name, name);
  }
}

std::vector<std::string_view> plain_names(const Graph& graph, const Mesh& mesh) {
  const bool one_axis = axes_in_use(mesh) <= 1;
  const bool alike = std::ranges::all_of(mesh, &std::vector<double>::empty, &Axis::paces);
  std::vector<std::string_view> names;
  for (const NamedStrategy& known : kStrategies) {
    const bool is_fsdp = one_axis && !known.on_outer_axes.empty();
    const bool says_nothing =
        known.of_experts && std::ranges::count(known.rules(graph, mesh[0]), "expert") == 0;
    const bool is_dp = known.by_pace && alike;
    if (!is_fsdp && !says_nothing && !is_dp && !known.of_stages && known.same_as.empty()) {
      names.push_back(known.name);
    }
  }
  return names;
}

Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh) {
  check_strategy_name(name);
  if (is_combination(name)) {
    return combined_strategy(name, graph, mesh);
  }
  const NamedStrategy& known = *find_strategy(name);
  Strategy strategy = known.whole != nullptr
                          ? known.whole(graph, mesh)
                          : RulesByName(graph, mesh).strategy(names_of_axes(known, mesh));
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
  return text +
         "\nOn several axes of the mesh a name means the same on each, but for hsdp, and min-comm, "
         "which\nis of all together. A name per axis, in any order: node=dp,gpu=megatron.";
}

}  // namespace hidup
