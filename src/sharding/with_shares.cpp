#include "sharding/with_shares.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

namespace hidup {
namespace {

// Returns the number of the weights among the axis's shares, where it adds them if need be.
ShareNumber number_of(Axis& axis, const Share& weights) {
  if (std::ranges::adjacent_find(weights, std::not_equal_to<>()) == weights.end()) {
    return {};
  }
  const auto known = std::ranges::find(axis.shares, weights);
  const auto number = known - axis.shares.begin();
  if (known == axis.shares.end()) {
    axis.shares.push_back(weights);
  }
  return ShareNumber::of(number + 1);
}

// Returns, by tensor, the placement in which the first operation that reads it uses it.
std::vector<Placement> placements_as_used(const Graph& graph, const Strategy& strategy,
                                          size_t axis) {
  std::vector<Placement> used(graph.tensors().size(), Placement::replicate());
  for (size_t op = strategy.ops.size(); op-- > 0;) {
    const std::vector<TensorId>& inputs = graph.ops()[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      used[static_cast<size_t>(inputs[i])] = strategy.ops[op].rules[axis].inputs[i];
    }
  }
  return used;
}

}  // namespace

bool cuts_features(const Rule& rule) {
  static constexpr std::array<std::string_view, 4> kOfTokens = {"batch", "expert", "factors",
                                                                "sequence"};
  return std::ranges::find(kOfTokens, rule.name) == kOfTokens.end();
}

Strategy with_shares(const Graph& graph, Strategy strategy, size_t axis, const Shares& shares) {
  Axis& along = strategy.mesh[axis];
  const std::vector<Placement> used = placements_as_used(graph, strategy, axis);
  const ShareNumber of_tokens = number_of(along, shares.tokens);
  const ShareNumber of_features = number_of(along, shares.features);
  const ShareNumber of_state = number_of(along, shares.state);
  for (OpStrategy& op : strategy.ops) {
    Rule& rule = op.rules[axis];
    const ShareNumber share = cuts_features(rule) ? of_features : of_tokens;
    if (rule.share.is_equal() && takes_share(rule, along, share)) {
      rule = with_share(rule, along, share);
    }
  }
  const std::vector<Placement> used_now = placements_as_used(graph, strategy, axis);
  for (ParameterStrategy& parameter : strategy.parameters) {
    Placement& storage = parameter.storage[axis];
    Placement& kept = parameter.optimizer_state[axis];
    const auto tensor = static_cast<size_t>(parameter.tensor);
    const bool as_used = storage == used[tensor];
    const bool same = kept == storage;
    const auto take = [&](Placement& placement, ShareNumber share) {
      if (placement.is_shard() && placement.share.is_equal()) {
        placement = with_share(placement, along, share);
      }
    };
    take(storage, as_used ? used_now[tensor].share : of_state);
    take(kept, same && as_used ? used_now[tensor].share : of_state);
  }
  return strategy;
}

Strategy with_equal_parts(Strategy strategy) {
  const auto has_parts = [](ShareNumber share) { return share.number() > 0; };
  for (size_t axis = 0; axis < strategy.mesh.size(); ++axis) {
    const Axis& along = strategy.mesh[axis];
    const auto reset = [&](Placement& placement) {
      placement = has_parts(placement.share) ? with_share(placement, along, {}) : placement;
    };
    for (OpStrategy& op : strategy.ops) {
      Rule& rule = op.rules[axis];
      rule = has_parts(rule.share) ? with_share(rule, along, {}) : rule;
    }
    for (ParameterStrategy& parameter : strategy.parameters) {
      reset(parameter.storage[axis]);
      reset(parameter.optimizer_state[axis]);
    }
    strategy.mesh[axis].shares.clear();
  }
  return strategy;
}

}  // namespace hidup
