// Strategies from a name per axis of the mesh.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "search/named/named_strategies.h"

namespace hidup {

// Makes strategies of one graph on one mesh, and finds only once what several have in common: the
// rules of a name.
class RulesByName {
 public:
  // Both have to outlive it.
  RulesByName(const Graph& graph, const Mesh& mesh) : graph_(graph), mesh_(mesh) {}

  // `names`: one per axis. The rules of an axis are those of its name. So is the storage: a
  // parameter lies where the rules of the axes that store it as it is used want it, and the axes
  // that shard it cut what those leave, outermost first. Gradients are deferred where one of the
  // names defers them, and parameters are kept for a pass where one of them keeps them so. Without
  // a name of its own.
  Strategy strategy(std::span<const NamedStrategy* const> names);

 private:
  const std::vector<Rule>& rules(const NamedStrategy& name, size_t axis);

  const Graph& graph_;
  const Mesh& mesh_;
  // Per function; of names whose rules depend on the axis, per axis, else -1.
  using Source = std::pair<decltype(NamedStrategy::rules), int>;
  std::map<Source, std::vector<Rule>> rules_;
};

// What a name alone means on each axis of the mesh.
std::vector<const NamedStrategy*> names_of_axes(const NamedStrategy& name, const Mesh& mesh);

}  // namespace hidup
