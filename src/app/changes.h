// A run with one thing changed. Searching again says what each change is worth (what_if.h), and
// with which of them a strategy fits in the memory (memory_advice.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/search.h"

namespace hidup {

// The costs of such a mesh, along one axis of which, if any, links have twice the bandwidth.
// Nothing where they are not known. Called by several threads.
using CostsOf =
    std::function<std::optional<CostModel>(const Mesh& mesh, std::optional<size_t> twice_as_fast)>;

// A run as a search sees it. All of it outlives the value. The mesh is that of the hints where
// there are some.
struct PlannedRun {
  const Graph& graph;
  const Mesh& mesh;
  const SearchOptions& options;
  const CostsOf& costs_of;
};

struct ChangedRun {
  std::string what;                           // "ranks along axis node x 2"
  std::optional<Graph> graph = std::nullopt;  // nothing: the run's own
  Mesh mesh;
  SearchOptions options;
  std::optional<size_t> twice_as_fast = std::nullopt;  // an axis
  double distance = 1.0;                               // by what factor it differs from the run
};

struct Change {
  std::string kind;  // bandwidth, memory, ranks, gradients, hint, batch, microbatches, precision
  std::string of;    // the axis, or the hint: "layers.*.attention by head"
  bool keeps_the_best = true;      // the best strategy of now stays possible, and takes no longer
  bool reprices_the_best = false;  // it stays possible, and may take longer
  int64_t variants = 1;            // the nearest first; each needs no more memory than those before
  std::function<ChangedRun(int64_t variant)> variant;
  std::string obstacle = {};  // why nobody can tell; empty: nothing
};

// For every axis of several ranks twice the bandwidth, for every axis twice the ranks, twice the
// memory where it is limited, gradients that are sent in bf16 where they are not yet sent in 16
// bits (messages are other ones then, and may take longer), and no longer each of the hints, also
// the only number of microbatches in the options if that is not 1, 2 and 4. Hints of alike
// operations or parameters (pattern_of()) are one.
std::vector<Change> single_changes(const PlannedRun& run);

// Changes that may save memory: no hints, a smaller batch, more microbatches (up to 16), bf16, more
// ranks along the outermost axis (up to kMoreRanks times as many).
inline constexpr int64_t kMoreRanks = 64;
std::vector<Change> saving_changes(const PlannedRun& run);

// The outcome of a search on one thread, as other changes are searched for beside it, without the
// strategies that cannot win. Nothing where no strategy fits.
std::optional<SearchOutcome> search_changed(const PlannedRun& run, const ChangedRun& changed,
                                            const CostModel& costs);

}  // namespace hidup
