#include "search/named/rules_by_name.h"

#include <algorithm>
#include <string>

namespace hidup {
namespace {

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
  return strategy;
}

std::vector<const NamedStrategy*> names_of_axes(const NamedStrategy& name, const Mesh& mesh) {
  std::vector<const NamedStrategy*> names(mesh.size(), &name);
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
