// Runs on ranks that are threads, which write a checkpoint or resume from one.
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

// Runs all steps and writes the checkpoint after one of them. Throws a rank's error.
ShortRun run_saved(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                   const SavedAt& saved);

// Returns the losses of the steps after the checkpoint.
std::vector<double> resume(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                           const SavedAt& saved);

}  // namespace hidup
