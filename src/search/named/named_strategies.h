// The strategies that have a name: a record each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/strategy.h"

namespace hidup {

// Where parameters and the state of their optimizer lie on an axis.
enum class Storage {
  as_used,        // where the first operation that reads a parameter uses it: nothing is gathered
  state_sharded,  // parameters as they are used
  sharded,        // both
  first_rank,     // both on the first rank of the axis
};

// What a name means on an axis of the mesh; alone it means that on every axis.
struct NamedStrategy {
  std::string_view name;
  std::string_view doc;     // one line, for --help
  std::string_view source;  // where it comes from: systems and papers
  // Per operation, the name of its rule on the axis.
  std::vector<std::string> (*rules)(const Graph& graph, const Axis& axis);
  Storage storage = Storage::as_used;
  Kept kept = Kept::step;        // of all parameters
  bool defer_gradients = false;  // Strategy::defer_gradients
  bool of_experts = false;       // without experts it says nothing
  bool by_axis = false;          // the rules depend on the axis
  // Alone it means this name on all axes with ranks but the innermost; empty: its own.
  std::string_view on_outer_axes = {};
  // Alone it means this, of all axes together, without the name.
  Strategy (*whole)(const Graph& graph, const Mesh& mesh) = nullptr;
};

std::span<const NamedStrategy> named_strategies();
// Null where there is none of that name.
const NamedStrategy* find_strategy(std::string_view name);

// The names that mean different things for a model on the mesh: without hsdp where only one axis
// has ranks, and without those of experts where the model has none.
std::vector<std::string_view> plain_names(const Graph& graph, const Mesh& mesh);

// `name` is that of a record, or one per axis of the mesh: "node=dp,gpu=megatron"
// (combination.h). Throws Error(usage) with the known names, and the nearest, if there is no
// strategy of a name, and where it is not written so; whether the axes are the mesh's only
// named_strategy() can tell.
void check_strategy_name(std::string_view name);

// Throws as check_strategy_name(); and Error(usage) where names are not those of the mesh's axes,
// or cannot be combined for this graph.
Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh);

// Throws Error(usage): `choice`, what was asked for, has this name.
[[noreturn]] void fail_unknown_strategy(std::string_view choice, std::string_view name);

// For --help: "dp, zero1, ... or min-comm"; and a line for each with its doc and source.
std::string strategy_names();
std::string strategies_help();

}  // namespace hidup
