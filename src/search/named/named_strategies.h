// Named strategies, one record each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/strategy.h"

namespace hidup {

// The place of parameters and optimizer state on an axis.
enum class Storage {
  as_used,        // as the first operation that reads a parameter uses it, without a gather
  state_sharded,  // only optimizer state is sharded
  sharded,        // parameters and state
  first_rank,     // parameters and state
};

// A strategy on one axis of the mesh; its name alone applies it to every axis.
struct NamedStrategy {
  std::string_view name;
  std::string_view doc;     // one line, for --help
  std::string_view source;  // systems and papers
  // Returns the name of every operation's rule on the axis.
  std::vector<std::string> (*rules)(const Graph& graph, const Axis& axis);
  Storage storage = Storage::as_used;
  Residency residency = Residency::step;  // residency of all parameters
  bool defer_gradients = false;           // Strategy::defer_gradients
  bool of_experts = false;                // needs experts
  bool by_axis = false;                   // the rules depend on the axis
  bool by_pace = false;                   // parts in proportion to Axis::paces
  std::string_view same_as = {};  // another name of this strategy, with which searches compare
  // The axis is a pipeline (pipeline.h). If this name stands alone, that is the outermost axis with
  // ranks, and the others are dp.
  bool of_stages = false;
  // If this name stands alone: the name for all but the innermost axis with ranks; empty: this.
  std::string_view on_outer_axes = {};
  // Makes the strategy of this name alone for all axes together, without setting its name.
  Strategy (*whole)(const Graph& graph, const Mesh& mesh) = nullptr;
};

std::span<const NamedStrategy> named_strategies();
// Returns null where no strategy has the name.
const NamedStrategy* find_strategy(std::string_view name);

// Returns the names that differ for a model on the mesh and that searches compare with: without
// pipelines, without hsdp where one axis has ranks, without expert strategies where the model has
// no experts, and without parts in proportion to paces where all ranks are alike.
std::vector<std::string_view> plain_names(const Graph& graph, const Mesh& mesh);

// `name`: a record's name, or one per axis of the mesh: "node=dp,gpu=megatron" (combination.h).
// Throws Error(usage) with the known names and the nearest one for unknown names, and for malformed
// text. Only named_strategy() checks that the axes are the mesh's.
void check_strategy_name(std::string_view name);

// Throws as check_strategy_name(); and Error(usage) where the axes are not the mesh's, or the names
// cannot be combined for this graph.
Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh);

// Throws Error(usage) for the unknown `name` in the requested `choice`.
[[noreturn]] void fail_unknown_strategy(std::string_view choice, std::string_view name);

// Return text for --help: "dp, zero1, ... or min-comm"; and a line each with doc and source.
std::string strategy_names();
std::string strategies_help();

}  // namespace hidup
