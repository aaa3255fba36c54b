#include "search/shares/with_shares.h"

#include <algorithm>
#include <functional>
#include <map>
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

std::vector<PaceClass> pace_classes(const Mesh& mesh, size_t axis,
                                    const std::vector<int64_t>& memory) {
  const Axis& along = mesh[axis];
  const auto size = static_cast<size_t>(along.size);
  std::vector<int64_t> least(size);
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    int64_t& of = least[static_cast<size_t>(
        coordinate_of(mesh, static_cast<int64_t>(rank), axis))];
    of = of == 0 ? memory[rank] : std::min(of, memory[rank]);
  }
  std::map<std::pair<double, int64_t>, std::vector<int64_t>, std::greater<>> alike;
  for (size_t coordinate = 0; coordinate < size; ++coordinate) {
    const double pace = along.paces.empty() ? 1.0 : along.paces[coordinate];
    alike[{pace, least[coordinate]}].push_back(static_cast<int64_t>(coordinate));
  }
  std::vector<PaceClass> classes;
  classes.reserve(alike.size());
  for (auto& [kind, coordinates] : alike) {
    classes.push_back({kind.first, kind.second, std::move(coordinates)});
  }
  return classes.size() > 1 ? classes : std::vector<PaceClass>();
}

Share weights_of(const std::vector<PaceClass>& classes, const std::vector<int64_t>& by_class) {
  size_t ranks = 0;
  for (const PaceClass& each : classes) {
    ranks += each.coordinates.size();
  }
  Share weights(ranks);
  for (size_t c = 0; c < classes.size(); ++c) {
    for (const int64_t coordinate : classes[c].coordinates) {
      weights[static_cast<size_t>(coordinate)] = by_class[c];
    }
  }
  return weights;
}

Strategy with_shares(const Graph& graph, Strategy strategy, size_t axis, const Share& compute,
                     const Share& state) {
  Axis& along = strategy.mesh[axis];
  const std::vector<Placement> used = placements_as_used(graph, strategy, axis);
  const ShareNumber of_compute = number_of(along, compute);
  const ShareNumber of_state = number_of(along, state);
  for (OpStrategy& op : strategy.ops) {
    Rule& rule = op.rules[axis];
    if (rule.share.is_equal() && takes_share(rule, along, of_compute)) {
      rule = with_share(rule, along, of_compute);
    }
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    Placement& storage = parameter.storage[axis];
    Placement& kept = parameter.optimizer_state[axis];
    const bool as_used = storage == used[static_cast<size_t>(parameter.tensor)];
    const bool same = kept == storage;
    const auto take = [&](Placement& placement, ShareNumber share) {
      if (placement.is_shard() && placement.share.is_equal()) {
        placement = with_share(placement, along, share);
      }
    };
    take(storage, as_used ? of_compute : of_state);
    take(kept, same && as_used ? of_compute : of_state);
  }
  return strategy;
}

}  // namespace hidup
