// The strategies that have a name.
#pragma once

#include <string_view>

#include "sharding/strategy.h"

namespace hidup {

// Throws Error(usage) with the known names if there is no strategy of that name.
void check_strategy_name(std::string_view name);

// dp: data parallel. The batch is cut along every axis, parameters and optimizer
// state are replicated, gradients are all-reduced in buckets (as DDP and Horovod do).
// Throws as check_strategy_name() for any other name.
Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh);

}  // namespace hidup
