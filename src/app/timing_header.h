// What the timing file says of a run before its first step.
#pragma once

#include <optional>
#include <string>

#include "app/inputs.h"
#include "app/machine.h"
#include "app/plan.h"
#include "cost/simulate.h"
#include "io/timing_file.h"
#include "program/memory.h"
#include "program/program.h"
#include "train/dataset.h"

namespace hidup {

// A run that is about to begin; all of it outlives the call.
struct RunDescription {
  const std::string& model;  // the model deck's path
  const std::string& command_line;
  const Decks& decks;
  const Dataset& data;
  const Graph& graph;
  const LoadedStrategy& strategy;
  const Program& program;
  const MemoryPlan& plan;
  const Device& device;
  const Communication& communication;
  const std::optional<Prediction>& prediction;
};

ProgramInfo program_info(const Program& program);
PredictionInfo prediction_info(const Prediction& prediction, const MemoryPlan& plan);

// Collective: hosts and memory of all ranks.
TimingHeader timing_header(const RunDescription& run, MpiSession& mpi);

}  // namespace hidup
