// The work of a run, agreed by all ranks. All of it is collective.
#pragma once

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
  double search_s = 0.0;  // 0: it was not searched for
};
// Rank 0 reads, makes or searches for the strategy, with the hints of a file (empty: none); all
// ranks parse the same text. That all have the same is checked, not assumed.
LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const MachineCosts& known, const std::string& hints,
                             Communicator& world);

// Every rank makes the program; that all made the same is checked, not assumed. `fuse`: see
// LoweringOptions.
Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world, bool fuse = true);

// The same of the forward pass alone.
Program make_forward_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                             Communicator& world);

// A program, and where its values lie on this rank; verified.
struct PlannedPass {
  Program program;
  MemoryPlan memory;

  PlannedProgram planned() const { return {program, memory}; }
};

// Programs to run, and what is predicted of them.
struct RunPlan {
  LoadedStrategy loaded;
  std::optional<PlannedPass> training;
  std::optional<PlannedPass> forward;    // on validation data; it shares what the training keeps
  std::optional<Durations> durations;    // of the training, where times are emulated
  std::optional<Prediction> prediction;  // likewise, on rank 0
  std::optional<StepFloor> floor;        // likewise: of the rank that has the longest
};
// By the strategy that was chosen (empty: the checkpoint's where it fits, else a search, or of what
// is not trained dp), with the hints of a file (empty: none).
RunPlan make_plan(const Inputs& inputs, const MachineCosts& known, const std::string& choice,
                  const std::string& hints, Communicator& world);

}  // namespace hidup
