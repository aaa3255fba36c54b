// The best plan, by trying all plans.
#pragma once

#include <functional>
#include <optional>

#include "search/problem/problem.h"

namespace hidup {

void for_all_plans(const Problem& problem, const std::function<void(const Plan&)>& use);

// Returns the seconds of the fastest plan that fits in the memory; nothing if none fits.
std::optional<double> least_seconds(const Problem& problem);

// Returns a limit of memory that usually some plans keep and others exceed.
double some_limit(const Problem& problem);

}  // namespace hidup
