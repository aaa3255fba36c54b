// The plan of a run, agreed by all ranks. Everything here is collective.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "cost/floor.h"
#include "cost/play.h"
#include "cost/simulate.h"
#include "deck/deck.h"
#include "program/memory.h"
#include "program/program.h"
#include "runtime/store.h"
#include "sharding/strategy.h"

namespace hidup {

struct Inputs;        // app/inputs.h
struct MachineCosts;  // app/machine.h

struct LoadedStrategy {
  Strategy strategy;
  double search_s = 0.0;  // 0: no search
};

// Reads, makes or searches for the strategy on rank 0, with the hints of a file (empty: none). All
// ranks parse the same text and check that they agree.
LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const MachineCosts& known, const std::string& hints,
                             Communicator& world);

// Makes the program on every rank, and checks that all are equal. `fuse`: see LoweringOptions.
Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world, bool fuse = true);

// Does the same for the forward pass alone.
Program make_forward_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                             Communicator& world);

// A verified program, and the places of its values on this rank.
struct PlannedPass {
  Program program;
  MemoryPlan memory;

  PlannedProgram planned() const { return {program, memory}; }
};

// The programs to run, and their predictions.
struct RunPlan {
  LoadedStrategy loaded;
  std::optional<PlannedPass> training;
  std::optional<PlannedPass> forward;    // on validation data; shares the training's memory
  std::optional<Durations> durations;    // of the training, for emulated times
  std::optional<Prediction> prediction;  // of the training, on rank 0
  std::optional<StepFloor> floor;        // of the training, on the rank of the longest floor
};
// Makes the plan for the strategy that `make` returns on rank 0.
RunPlan make_plan(const Inputs& inputs, const MachineCosts& known,
                  const std::function<LoadedStrategy()>& make, Communicator& world);
// Makes the plan for the chosen strategy. Empty: the checkpoint's where it fits, else a search, or
// dp without training. `hints`: a file; empty: none.
RunPlan make_plan(const Inputs& inputs, const MachineCosts& known, const std::string& choice,
                  const std::string& hints, Communicator& world);

}  // namespace hidup
