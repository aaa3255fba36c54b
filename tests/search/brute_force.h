// The best plan by trying all.
#pragma once

#include <functional>
#include <optional>

#include "search/problem/problem.h"

namespace hidup {

void for_all_plans(const Problem& problem, const std::function<void(const Plan&)>& use);

// The least seconds of a plan that fits in the memory; none if none fits.
std::optional<double> least_seconds(const Problem& problem);

// A limit of memory that some plans keep and others do not, mostly.
double some_limit(const Problem& problem);

}  // namespace hidup
