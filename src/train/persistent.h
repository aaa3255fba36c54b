// State that stays in memory from step to step, and its copy in a checkpoint.
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

// Parameters and optimizer state: entry i of each vector belongs to one tensor.
struct PersistentValues {
  std::vector<ValueId> values;
  std::vector<StoredTensor> tensors;
  std::vector<Region> regions;  // this rank's part
};
PersistentValues persistent_values(const Program& program, int64_t rank);

// Collective. Copies the checkpoint's values to the program's state, each rank its part. Where
// precisions differ, parameters are rounded from their f32 masters. Throws CollectiveError(file) if
// the file cannot be read, lacks a tensor or has it in another shape.
void restore(Communicator& world, Executor& executor, const CheckpointFile& checkpoint);

// A parameter, and the checkpoint tensor with its most exact copy: its f32 master, if any.
struct StoredParameter {
  std::string name;
  size_t tensor = 0;
};
// Returns the parameters in file order. Throws Error(file) if they differ from those of the graph.
std::vector<StoredParameter> parameters_of(const CheckpointFile& checkpoint, const Graph& graph);

// Returns the deck of the checkpoint's run, with a number as its vocabulary. Throws Error(file).
Deck deck_of(const CheckpointFile& checkpoint);

// Restores the number of skipped steps, and the loss scale if it adapts in both runs. Other values
// of `state` keep those of a start.
void restore_scale(const CheckpointFile& checkpoint, kernels::StepState& state);

// The properties of a run that resumes from a checkpoint.
struct ResumedRun {
  const Deck& deck;          // with a number as its vocabulary
  const std::string& graph;  // text of model.graph; empty: none
  const std::vector<std::string>& vocabulary;
  uint64_t data_hash = 0;  // 0: no data is read, or none was trained on
};
// Compares the run with the checkpoint. Throws Error(usage) with the differences in model,
// optimizer or vocabulary, and Error(file) as deck_of() does. Returns the other differences for
// people, "train.lr: 0.001 -> 0.0005, ...", or "" if there are none.
std::string check_resumable(const CheckpointFile& checkpoint, const ResumedRun& run);

}  // namespace hidup
