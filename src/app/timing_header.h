// The facts of a run that timing files and checkpoints record before its first step.
#pragma once

#include <string>

#include "app/inputs.h"
#include "app/machine.h"
#include "app/plan.h"
#include "checkpoint/checkpoint.h"
#include "cost/simulate.h"
#include "io/timing_file.h"
#include "program/memory.h"
#include "program/program.h"

namespace hidup {

ProgramInfo program_info(const Program& program);
PredictionInfo prediction_info(const Prediction& prediction, const MemoryPlan& plan);

// Returns the header of a training at its start, with hosts and memory of all ranks. Collective.
TimingHeader timing_header(const std::string& model_deck, const std::string& command_line,
                           const Inputs& inputs, const Machine& machine, const RunPlan& plan);

// Returns the state that this run's checkpoints have before the first step.
TrainingState initial_state(const Inputs& inputs, const TimingHeader& header);

}  // namespace hidup
