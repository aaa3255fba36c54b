#include "search/problem/storages.h"

#include <algorithm>
#include <utility>

namespace hidup {

Storages::Storages(const Graph& graph, const Mesh& mesh, const Hints& hints, StorageChoices choices)
    : graph_(graph), mesh_(mesh), hints_(hints) {
  const Axes none(mesh.size());
  cuts_.push_back({none, none});
  const std::vector<Axes> sets = sets_of_axes(choices);
  for (const Axes& state : sets) {
    cuts_.push_back({state, none});
    for (const Axes& storage : sets) {
      if (within(storage, state)) {
        cuts_.push_back({state, storage});
      }
    }
  }
}

bool Storages::within(const Axes& some, const Axes& all) {
  return std::ranges::equal(some, all, std::less_equal{});
}

// Returns all axes; the innermost one, whose links are the fastest; and, of two axes, the other
// one. On more axes each set costs much time, because there are many routes between layouts.
std::vector<Storages::Axes> Storages::sets_of_axes(StorageChoices choices) const {
  if (choices == StorageChoices::as_used) {
    return {};
  }
  Axes all;
  std::vector<Axes> each;  // innermost first
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    all.push_back(mesh_[axis].size > 1);
    if (all.back()) {
      Axes one(mesh_.size());
      one[axis] = true;
      each.insert(each.begin(), std::move(one));
    }
  }
  std::vector<Axes> sets = {all};
  if (each.size() > 1 && choices == StorageChoices::on_some_axes) {
    sets.insert(sets.end(), each.begin(), each.size() == 2 ? each.end() : each.begin() + 1);
  }
  return sets;
}

std::vector<ChoiceMeaning> Storages::of(OpId op, const OpStrategy& op_strategy,
                                        const std::vector<size_t>& owned) const {
  ChoiceMeaning as_used{.op_strategy = op_strategy};
  for (const size_t input : owned) {
    const Layout layout = gradient_of(input_layout(op_strategy, input));  // sums are stored whole
    as_used.parameters.push_back({graph_.op(op).inputs[input], layout, layout});
    as_used.inputs.push_back(input);
  }
  std::vector<ChoiceMeaning> all;
  for (size_t c = 0; c < cuts_.size(); ++c) {
    ChoiceMeaning meaning = as_used;
    for (ParameterLayouts& parameter : meaning.parameters) {
      parameter = cut(std::move(parameter), cuts_[c]);
    }
    apply_hints(meaning);
    auto same = std::ranges::find(all, meaning.parameters, &ChoiceMeaning::parameters);
    if (same == all.end()) {
      same = all.insert(all.end(), std::move(meaning));
    }
    same->storages |= c < 64 ? uint64_t{1} << c : 0;
  }
  return all;
}

// Cuts the state as the storage and further, so that a rank owns the parameters that it updates.
ParameterLayouts Storages::cut(ParameterLayouts as_used, const Cut& axes) const {
  Axes storage = axes.storage;
  Axes state = axes.state;
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    storage[axis] = storage[axis] && as_used.storage[axis].is_replicate();
    state[axis] = state[axis] && as_used.storage[axis].is_replicate() && !storage[axis];
  }
  const Shape& shape = graph_.tensor(as_used.tensor).shape;
  as_used.storage = sharded_on(storage, std::move(as_used.storage), shape, mesh_);
  as_used.optimizer_state = sharded_on(state, as_used.storage, shape, mesh_);
  return as_used;
}

void Storages::apply_hints(ChoiceMeaning& meaning) const {
  if (hints_.parameters.empty()) {
    return;
  }
  for (ParameterLayouts& parameter : meaning.parameters) {
    const ParameterHint& hint = *hints_.of_parameter(parameter.tensor);
    parameter.storage = hint.storage.value_or(parameter.storage);
    parameter.optimizer_state = hint.optimizer_state.value_or(parameter.optimizer_state);
  }
}

}  // namespace hidup
