// Strategies with a name per axis of the mesh: "node=dp,gpu=megatron".
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "search/named/rules_by_name.h"

namespace hidup {

// Returns true for text such as node=dp,gpu=megatron; no single name has an equals sign.
bool is_combination(std::string_view text);

// Throws Error(usage) unless the text is a list of AXIS=NAME, each axis once, with known names.
void check_combination(std::string_view text);

// Returns RulesByName::strategy(), named after its axes in the mesh's order. The same name on all
// axes becomes that name alone, unless the name is defined for all axes together. Throws as
// check_combination(), and Error(usage) for an axis that the mesh lacks (with the nearest one) or
// that has no name; for a name that needs experts where the graph has none, or that cuts nothing;
// and for different names of which one leaves nothing of a dimension for the other to cut.
Strategy combined_strategy(std::string_view text, const Graph& graph, const Mesh& mesh);

inline constexpr size_t kMostCombinations = 64;

// The strategies that a search on several axes compares with its own. They are plain_names() and,
// on two axes with ranks, all combinations of two names that combined_strategy() accepts and that
// equal no earlier strategy. More axes are combined too, up to kMostCombinations combinations.
class Baselines {
 public:
  // The graph and the mesh must outlive the object.
  Baselines(const Graph& graph, const Mesh& mesh);

  size_t size() const { return names_.size(); }
  bool is_plain(size_t number) const { return names_.at(number).alone != nullptr; }
  Strategy strategy(size_t number);

 private:
  // One name alone, or one per axis.
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
