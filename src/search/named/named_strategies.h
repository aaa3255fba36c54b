// The strategies that have a name: a record each.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sharding/strategy.h"

namespace hidup {

struct NamedStrategy {
  std::string_view name;
  std::string_view doc;     // one line, for --help
  std::string_view source;  // where it comes from: systems and papers
  // The strategy for every axis of the mesh alike, without its name.
  Strategy (*shard)(const Graph& graph, const Mesh& mesh);
};

std::span<const NamedStrategy> named_strategies();

// Throws Error(usage) with the known names, and the nearest, if there is no strategy of that name.
void check_strategy_name(std::string_view name);

// Throws as check_strategy_name() for an unknown name.
Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh);

// For --help: "dp, zero1, ... or min-comm"; and a line for each with its doc and source.
std::string strategy_names();
std::string strategies_help();

}  // namespace hidup
