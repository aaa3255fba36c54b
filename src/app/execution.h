// The programs of a plan, ready to run on this rank.
#pragma once

#include <memory>
#include <optional>

#include "app/inputs.h"
#include "app/machine.h"
#include "app/plan.h"
#include "runtime/emulator.h"
#include "runtime/executor.h"
#include "runtime/store.h"
#include "train/evaluate.h"
#include "train/held_state.h"

namespace hidup {

// The state that an execution leaves to the one that continues its training with another plan.
struct Handover {
  double start = 0.0;     // Execution::start()
  Nanoseconds begin = 0;  // emulated start of the next step
  HeldState state;
};

class Execution {
 public:
  // Allocates memory, and initializes parameters from the checkpoint, from the initial model, or
  // randomly; or continues from `before`. All arguments must outlive the object, except for
  // `before`. Throws CollectiveError. Collective.
  Execution(const Inputs& inputs, Machine& machine, const RunPlan& plan,
            const Handover* before = nullptr);

  // Returns what the next execution needs. Destroy this one before that, for its memory.
  Handover hand_over(const Communicator& world);

  // Returns the executor of the training or, without one, of the forward pass.
  Executor& executor() { return training_ ? *training_ : *forward_; }
  // Returns the evaluator of the loss on validation data, for the present parameters; null without
  // a forward pass.
  Evaluator* evaluator() { return evaluator_ ? &*evaluator_ : nullptr; }
  int64_t bytes() const { return store_->bytes(); }
  // Returns run_start() of this rank, for a training.
  double start() const { return start_; }

 private:
  void load_parameters(const Inputs& inputs, Communicator& world, const Handover* before);

  double start_ = 0.0;
  std::optional<Store> store_;
  std::unique_ptr<Emulator> emulator_;  // for emulated times
  std::optional<Executor> training_;    // uses store_ and emulator_
  std::optional<Executor> forward_;
  std::optional<Evaluator> evaluator_;
};

}  // namespace hidup
