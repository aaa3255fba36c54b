// Describes the stages of a pipeline, for people and for --json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/rank_costs.h"
#include "graph/graph.h"
#include "program/program.h"
#include "sharding/strategy.h"

namespace hidup {

// A chunk of a pipeline's device.
struct ChunkReport {
  OpId first = -1;
  OpId last = -1;              // in graph order
  int device = 0;              // of the pipeline
  std::vector<int64_t> ranks;  // coordinates on the pipeline's axis
  double flops_part = 0.0;     // of the forward pass, over those of all chunks
  int64_t peak_bytes = 0;      // of the device's rank that needs most
};

struct PipelineReport {
  std::string axis;
  std::string schedule;    // its name
  int microbatches = 0;    // of the schedule: groups of the strategy
  double idle = 0.0;       // schedule_idle()
  bool predicted = false;  // idle: by predicted times, not by flops
  std::vector<ChunkReport> chunks;
};

// Throws Error(usage) where the strategy has no stages.
void check_has_stages(const Strategy& strategy);

// The costs of a program's instructions, and the predicted time of its step.
struct StepCosts {
  const RankCosts& costs;
  double seconds = 0.0;
};

// Returns the part of a step in which the stages idle by their order alone, as if messages took no
// time: the mean of the stages. Nothing is `predicted`: the passes take times in proportion to
// their flops, and make up the step. `program`: of the strategy, which has a schedule.
double schedule_idle(const Graph& graph, const Strategy& strategy, const Program& program,
                     const std::optional<StepCosts>& predicted);

// `program` and `predicted`: as above.
PipelineReport report_pipeline(const Graph& graph, const Strategy& strategy, const Program& program,
                               const std::optional<StepCosts>& predicted);

// Returns a line about the schedule, and a line per chunk.
std::string describe(const Graph& graph, const PipelineReport& report);

// Returns the schedule as a CSV file. Throws Error(usage) where the strategy has none.
std::string schedule_csv(const Graph& graph, const Strategy& strategy);

}  // namespace hidup
