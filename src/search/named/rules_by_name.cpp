#include "search/named/rules_by_name.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/limits.h"
#include "graph/batch.h"
#include "search/named/pipeline.h"
#include "sharding/with_shares.h"

namespace hidup {
namespace {

// With 4 groups of microbatches per stage, stages idle for less than a fifth of a step.
constexpr int64_t kGroupsPerStage = 4;

// Returns every parameter's layout as the first operation that reads it uses it.
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
  for (Layout& layout : layouts) {  // parameters that no operation reads
    layout.resize(strategy.mesh.size(), Placement::replicate());
  }
  return layouts;
}

std::vector<bool> axes_with(Storage storage, std::span<const NamedStrategy* const> names) {
  std::vector<bool> axes;
  for (const NamedStrategy* name : names) {
    axes.push_back(name->storage == storage);
  }
  return axes;
}

}  // namespace

const std::vector<Rule>& RulesByName::rules(const NamedStrategy& name, size_t axis) {
  const auto [at, is_new] =
      rules_.try_emplace({name.rules, name.by_axis ? static_cast<int>(axis) : -1});
  if (is_new) {
    const std::vector<std::string> rule_names = name.rules(graph_, mesh_[axis]);
    for (OpId op = 0; op < static_cast<OpId>(rule_names.size()); ++op) {
      at->second.push_back(find_rule(graph_, op, rule_names[static_cast<size_t>(op)]));
    }
  }
  return at->second;
}

Strategy RulesByName::strategy(std::span<const NamedStrategy* const> names) {
  Strategy strategy{.mesh = mesh_};
  strategy.ops.resize(graph_.ops().size());
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    const std::vector<Rule>& of_axis = rules(*names[axis], axis);
    for (size_t op = 0; op < of_axis.size(); ++op) {
      strategy.ops[op].rules.push_back(of_axis[op]);
    }
    strategy.defer_gradients = strategy.defer_gradients || names[axis]->defer_gradients;
  }
  const Residency residency =
      std::ranges::find(names, Residency::pass, &NamedStrategy::residency) == names.end()
          ? Residency::step
          : Residency::pass;
  const std::vector<Layout> in_use = layouts_in_use(graph_, strategy);
  const std::vector<bool> sharded = axes_with(Storage::sharded, names);
  const std::vector<bool> state_sharded = axes_with(Storage::state_sharded, names);
  const std::vector<bool> on_first = axes_with(Storage::first_rank, names);
  for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.role != Tensor::Role::parameter) {
      continue;
    }
    Layout storage = in_use[static_cast<size_t>(id)];
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      storage[axis] = on_first[axis] ? Placement::on_first_rank() : storage[axis];
    }
    storage = sharded_on(sharded, std::move(storage), tensor.shape, mesh_);
    Layout state = sharded_on(state_sharded, storage, tensor.shape, mesh_);
    strategy.parameters.push_back({id, std::move(storage), std::move(state), residency});
  }
  return with_pipeline(with_paces(std::move(strategy), names), names);
}

Strategy RulesByName::with_paces(Strategy strategy,
                                 std::span<const NamedStrategy* const> names) const {
  constexpr double kParts = 1000.0;  // of the fastest rank
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    const std::vector<double>& paces = mesh_[axis].paces;
    if (!names[axis]->by_pace || paces.empty()) {
      continue;
    }
    const double fastest = std::ranges::max(paces);
    Share weights;
    for (const double pace : paces) {
      weights.push_back(std::max<int64_t>(1, std::llround(kParts * pace / fastest)));
    }
    weights = reduced(std::move(weights));
    strategy = with_shares(graph_, std::move(strategy), axis, {weights, weights, weights});
  }
  return strategy;
}

Strategy RulesByName::with_pipeline(Strategy strategy,
                                    std::span<const NamedStrategy* const> names) const {
  std::optional<size_t> pipeline;
  int64_t others = 1;
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    if (!names[axis]->of_stages || mesh_[axis].size == 1) {
      others *= mesh_[axis].size;
    } else if (pipeline) {
      fail(ExitCode::usage, "the axes {} and {} are both pipelines: a model has one",
           mesh_[*pipeline].name, mesh_[axis].name);
    } else {
      pipeline = axis;
    }
  }
  if (!pipeline) {
    return strategy;
  }
  if (accumulate_obstacle(graph_).empty()) {
    const int64_t most = std::max<int64_t>(batch_of(graph_) / others, 1);
    strategy.accumulate = static_cast<int>(
        std::min({kGroupsPerStage * mesh_[*pipeline].size, most, int64_t{kMaxMicrobatches}}));
  }
  return with_stages(graph_, std::move(strategy), {.axis = *pipeline, .name = "1f1b"});
}

std::vector<const NamedStrategy*> names_of_axes(const NamedStrategy& name, const Mesh& mesh) {
  std::vector<const NamedStrategy*> names(mesh.size(), &name);
  if (name.of_stages) {
    const auto first = std::ranges::find_if(mesh, [](const Axis& axis) { return axis.size > 1; });
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      const bool is_first = first == mesh.end() || &mesh[axis] == &*first;
      names[axis] = is_first ? &name : find_strategy("dp");
    }
    return names;
  }
  bool inside = true;  // no axis with ranks has come yet
  for (size_t axis = mesh.size(); axis-- > 0 && !name.on_outer_axes.empty();) {
    if (!inside) {
      names[axis] = find_strategy(name.on_outer_axes);
    }
    inside = inside && mesh[axis].size == 1;
  }
  return names;
}

}  // namespace hidup
