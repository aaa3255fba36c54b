// Strategies from a name per axis of the mesh.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "search/named/named_strategies.h"

namespace hidup {

// Makes strategies of one graph on one mesh, and computes the rules of a name only once.
class RulesByName {
 public:
  // Graph and mesh must outlive the object.
  RulesByName(const Graph& graph, const Mesh& mesh) : graph_(graph), mesh_(mesh) {}

  // Returns a strategy without a name. Throws Error(usage) where two axes are pipelines. `names`:
  // one per axis, which gives the axis its rules and storage. A parameter lies as the axes that
  // store it as used need it; the axes that shard it cut the rest, outermost first. One name
  // suffices to defer gradients, or to hold parameters only for a pass.
  Strategy strategy(std::span<const NamedStrategy* const> names);

 private:
  // Gives the ranks of axes whose name asks for it parts in proportion to their paces.
  Strategy with_paces(Strategy strategy, std::span<const NamedStrategy* const> names) const;
  // Divides the model in stages along the axis whose name asks for them.
  Strategy with_pipeline(Strategy strategy, std::span<const NamedStrategy* const> names) const;
  const std::vector<Rule>& rules(const NamedStrategy& name, size_t axis);

  const Graph& graph_;
  const Mesh& mesh_;
  // One entry per function; for rules that depend on the axis, per axis, else -1.
  using Source = std::pair<decltype(NamedStrategy::rules), int>;
  std::map<Source, std::vector<Rule>> rules_;
};

// Returns the strategies per axis that a name alone stands for.
std::vector<const NamedStrategy*> names_of_axes(const NamedStrategy& name, const Mesh& mesh);

}  // namespace hidup
