// The loss on data.validation, of parameters that are being trained.
#pragma once

#include <cstdint>
#include <optional>

#include "app/plan.h"
#include "program/memory.h"
#include "runtime/executor.h"
#include "train/dataset.h"
#include "train/evaluate.h"

namespace hidup {

class Validation {
 public:
  // Collective. `training`: whose parameters are looked at. The deck and the world outlive this.
  Validation(const Graph& graph, const Strategy& strategy, const Deck& deck,
             const PlannedProgram& training, Communicator& world);

  // The forward pass, for the store, where it shares what the training keeps.
  PlannedProgram planned() const { return {program_, plan_}; }
  // The store and the data outlive this.
  void prepare(Store& store, const Dataset& data);
  // Runs between steps. After prepare().
  Evaluator& evaluator() { return evaluator_.value(); }

 private:
  const Deck& deck_;
  Communicator& world_;
  Program program_;
  MemoryPlan plan_;
  std::optional<Executor> executor_;
  std::optional<Evaluator> evaluator_;
};

}  // namespace hidup
