// Runs with one change. Another search rates each change (what_if.h) and finds those with which a
// strategy fits in memory (memory_advice.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search/search.h"

namespace hidup {

// The costs after a change.
struct ChangedCosts {
  ChangedCosts(CostModel all) : searched(all), ranks(std::move(all)) {}  // equal devices
  ChangedCosts(CostModel equal_ranks, RankCosts every_rank)
      : searched(std::move(equal_ranks)), ranks(std::move(every_rank)) {}

  CostModel searched;  // for search_strategy()
  RankCosts ranks;
};

// Returns the costs of a mesh, with twice the bandwidth along one axis, if any; none where unknown.
// Several threads call it.
using CostsOf = std::function<std::optional<ChangedCosts>(const Mesh& mesh,
                                                          std::optional<size_t> twice_as_fast)>;

// A run as a search sees it; the members must outlive the value. Hints, if any, have the same mesh.
struct PlannedRun {
  const Graph& graph;
  const Mesh& mesh;
  const SearchOptions& options;
  const CostModel& costs;  // of the run as it is, for search_strategy()
  const RankCosts& ranks;
  const CostsOf& costs_of;
};

struct ChangedRun {
  std::string what;                           // "ranks along axis node x 2"
  std::optional<Graph> graph = std::nullopt;  // none: the run's own
  Mesh mesh;
  SearchOptions options;
  std::optional<size_t> twice_as_fast = std::nullopt;  // an axis
  double distance = 1.0;                               // factor by which it differs from the run
};

struct Change {
  std::string kind;  // bandwidth, memory, ranks, gradients, hint, batch, microbatches, precision
  std::string of;    // the axis, or the hint: "layers.*.attention by head"
  bool keeps_the_best = true;      // the present best strategy stays possible, and no slower
  bool reprices_the_best = false;  // the present best strategy stays possible, and may be slower
  int64_t variants = 1;            // nearest first; each needs at most the memory of those before
  std::function<ChangedRun(int64_t variant)> variant;
  std::string obstacle = {};  // why the outcome is unknown; empty: it is known
};

// Returns the changes: twice the bandwidth of every axis with several ranks, twice the ranks along
// every axis (which has an obstacle where devices differ), twice the memory if it is limited,
// gradients sent in bf16 if they are sent in f32, and each hint removed, including a single number
// of microbatches in the options instead of 1, 2 and 4. Hints of similar operations or parameters
// (pattern_of()) count as one.
std::vector<Change> single_changes(const PlannedRun& run);

// Returns changes that may save memory: no hints, a smaller batch, more microbatches (up to 16),
// bf16, and more ranks along the outermost axis (up to kMoreRanks times as many).
inline constexpr int64_t kMoreRanks = 64;
std::vector<Change> saving_changes(const PlannedRun& run);

// Searches on one thread, because other changes are searched at the same time, and only strategies
// that may win. Returns none where no strategy fits.
std::optional<SearchOutcome> search_changed(const PlannedRun& run, const ChangedRun& changed,
                                            const ChangedCosts& costs);

}  // namespace hidup
