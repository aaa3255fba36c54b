#include "search/problem/storages.h"

#include <algorithm>
#include <utility>

namespace hidup {

std::vector<ChoiceMeaning> Storages::of(OpId op, const OpStrategy& op_strategy,
                                        const std::vector<size_t>& owned) const {
  ChoiceMeaning as_used{.op_strategy = op_strategy};
  for (const size_t input : owned) {
    const Layout layout = gradient_of(input_layout(op_strategy, input));  // sums are stored whole
    as_used.parameters.push_back({graph_.op(op).inputs[input], layout, layout});
    as_used.inputs.push_back(input);
  }
  std::vector<ChoiceMeaning> all = {as_used};
  ChoiceMeaning state_sharded = as_used;
  bool any = false;
  for (ParameterLayouts& parameter : state_sharded.parameters) {
    any |= shard(parameter);
  }
  if (any && shard_) {
    ChoiceMeaning all_sharded = state_sharded;
    for (ParameterLayouts& parameter : all_sharded.parameters) {
      parameter.storage = parameter.optimizer_state;
    }
    all.insert(all.end(), {std::move(state_sharded), std::move(all_sharded)});
  }
  return hints_.parameters.empty() ? all : hinted(all);
}

// The same with the layouts of the hints, without duplicates.
std::vector<ChoiceMeaning> Storages::hinted(const std::vector<ChoiceMeaning>& all) const {
  std::vector<ChoiceMeaning> different;
  for (ChoiceMeaning meaning : all) {
    for (ParameterLayouts& parameter : meaning.parameters) {
      const ParameterHint& hint = *hints_.of_parameter(parameter.tensor);
      parameter.storage = hint.storage.value_or(parameter.storage);
      parameter.optimizer_state = hint.optimizer_state.value_or(parameter.optimizer_state);
    }
    const bool known = std::ranges::any_of(different, [&](const ChoiceMeaning& other) {
      return other.parameters == meaning.parameters;
    });
    if (!known) {
      different.push_back(std::move(meaning));
    }
  }
  return different;
}

// Shards the optimizer's state on the axes on which it is replicated. False if there is none.
bool Storages::shard(ParameterLayouts& parameter) const {
  bool any = false;
  Shape rest = graph_.tensor(parameter.tensor).shape;
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    Placement& placement = parameter.optimizer_state[axis];
    if (placement.is_replicate() && mesh_[axis].size > 1) {
      placement = Placement::shard(storage_shard(rest, mesh_[axis].size).dim, placement.share);
      any = true;
    }
    if (placement.is_shard()) {
      auto& extent = rest[static_cast<size_t>(placement.dim)];
      // The largest part, which the next axis cuts.
      extent = (extent + mesh_[axis].size - 1) / mesh_[axis].size;
    }
  }
  return any;
}

}  // namespace hidup
