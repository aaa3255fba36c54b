// A second opinion on small problems: best-first search (A*: Hart, Nilsson and Raphael 1968) over
// the plans of the dynamic programming, without its states, dominance and beams. HAP (EuroSys 2024)
// searches so, with a heuristic of 0.
#pragma once

#include <cstddef>
#include <optional>

#include "search/dp/dynamic.h"
#include "search/problem/problem.h"

namespace hidup {

struct BestFirstOptions {
  // Bounds the rest of a plan by relaxations (without_overlap()). Without it the bound of a plan is
  // the time of its first operations alone.
  bool heuristic = true;
  size_t most_partial = 1'000'000;  // partial plans, of about 700 bytes each
};

struct BestFirstResult {
  std::optional<FoundPlan> plan;  // the fastest that fits in the memory
  size_t expanded = 0;  // partial plans that were extended by the next operation's choices
};

// Throws Error(usage) for a problem that needs more than BestFirstOptions::most_partial, and
// Error(internal) under the conditions of check_problem().
BestFirstResult best_first(const Problem& problem, const BestFirstOptions& options = {});

}  // namespace hidup
