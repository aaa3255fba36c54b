// What a program keeps from step to step, and what a checkpoint has of it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "deck/deck.h"
#include "graph/graph.h"
#include "kernels/step_state.h"
#include "runtime/executor.h"

namespace hidup {

// Parameters and the optimizer's state: entry i of each.
struct KeptValues {
  std::vector<ValueId> values;
  std::vector<StoredTensor> tensors;
  std::vector<Region> regions;  // this rank's part
};
KeptValues kept_values(const Program& program, int64_t rank);

// Collective: gives what the program keeps the values of the checkpoint, each rank its part. Where
// precisions differ, parameters come from their f32 masters, rounded. Throws CollectiveError(file)
// where the file cannot be read, lacks a tensor or has it in another shape.
void restore(Communicator& world, Executor& executor, const CheckpointFile& checkpoint);

// A parameter, and the tensor of the checkpoint that has it most exactly: its f32 master, if any.
struct StoredParameter {
  std::string name;
  size_t tensor = 0;
};
// In the order of the file. Throws Error(file) where they are not those of the graph.
std::vector<StoredParameter> parameters_of(const CheckpointFile& checkpoint, const Graph& graph);

// The deck of the run that wrote the checkpoint, with a number as its vocabulary. Throws
// Error(file).
Deck deck_of(const CheckpointFile& checkpoint);

// What the state, otherwise as at a start, has from the run that wrote the checkpoint: the steps
// that were skipped, and the loss's scale where it adapts in both.
void restore_scale(const CheckpointFile& checkpoint, kernels::StepState& state);

// What a run that goes on from a checkpoint has.
struct ResumedRun {
  const Deck& deck;          // with a number as its vocabulary
  const std::string& graph;  // text of model.graph; empty: none
  const std::vector<std::string>& vocabulary;
  uint64_t data_hash = 0;  // 0: nothing is read, or nothing trained on it
};
// Throws Error(usage) with what differs in model, optimizer or vocabulary; Error(file) as deck_of()
// does. Returns what else does,
// for people: "train.lr: 0.001 -> 0.0005, ..."; empty where nothing does.
std::string check_resumable(const CheckpointFile& checkpoint, const ResumedRun& run);

}  // namespace hidup
