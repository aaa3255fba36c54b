// The best plan by trying all.
#pragma once

#include <functional>
#include <optional>

#include "search/problem.h"

namespace hidup {

// Calls `use` with every plan: all choices, with the stages that they need and, if `all_stages`,
// with every further one.
void for_all_plans(const Problem& problem, bool all_stages,
                   const std::function<void(const Plan&)>& use);

// The least seconds of a plan that fits in the memory; none if none fits.
std::optional<double> least_seconds(const Problem& problem, bool all_stages);

}  // namespace hidup
