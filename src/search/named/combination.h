// Strategies with a name per axis of the mesh: "node=dp,gpu=megatron".
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "search/named/rules_by_name.h"

namespace hidup {

// Whether it is meant as one: no strategy's name has an equals sign.
bool is_combination(std::string_view text);

// Throws Error(usage) where it is no list of AXIS=NAME with names of strategies, and where it names
// an axis twice.
void check_combination(std::string_view text);

// With RulesByName::strategy(), called by its axes in the mesh's order. The same name on all axes
// is the name alone, unless that is of all axes together.
// Throws as check_combination(), and Error(usage): for an axis that the mesh does not have, with
// the nearest, or that has no name; where a name needs experts and the graph has none, or finds
// nothing to cut; and where different names leave nothing of a dimension for an axis to cut.
Strategy combined_strategy(std::string_view text, const Graph& graph, const Mesh& mesh);

inline constexpr size_t kMostCombinations = 64;

// The strategies that a search on several axes compares with its own: plain_names(); and where two
// axes have ranks all combinations of two names that combined_strategy() takes and that are no
// earlier strategy's equal. With more axes those, too, if the names have at most kMostCombinations.
class Baselines {
 public:
  // The graph and the mesh have to outlive the object.
  Baselines(const Graph& graph, const Mesh& mesh);

  size_t size() const { return names_.size(); }
  bool is_plain(size_t number) const { return names_.at(number).alone != nullptr; }
  Strategy strategy(size_t number);

 private:
  // By its name alone, or one per axis.
  struct Names {
    const NamedStrategy* alone;
    std::vector<const NamedStrategy*> of_axes;
  };
  Strategy strategy(const Names& names);

  const Graph& graph_;
  const Mesh& mesh_;
  RulesByName rules_;
  std::vector<Names> names_;
};

}  // namespace hidup
