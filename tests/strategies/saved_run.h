// Runs on ranks that are threads, which leave a checkpoint or go on from one.
#pragma once

#include <string>
#include <vector>

#include "sharding/strategy.h"
#include "short_run.h"

namespace hidup {

struct SavedAt {
  std::string folder;
  int step = 0;
};

// All steps; the checkpoint is written after one of them. Throws what a rank throws.
ShortRun run_saved(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                   const SavedAt& saved);

// The losses of the steps behind the checkpoint.
std::vector<double> resume(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                           const SavedAt& saved);

}  // namespace hidup
