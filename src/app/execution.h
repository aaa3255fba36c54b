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

namespace hidup {

class Execution {
 public:
  // Collective. Allocates, and gives the parameters their values: the checkpoint's, the initial
  // model's, or random ones. All arguments outlive this. Throws CollectiveError.
  Execution(const Inputs& inputs, Machine& machine, const RunPlan& plan);

  // It runs the training, else the forward pass.
  Executor& executor() { return training_ ? *training_ : *forward_; }
  // It measures the loss on the validation data, of the parameters as they are; null without a
  // forward pass.
  Evaluator* evaluator() { return evaluator_ ? &*evaluator_ : nullptr; }
  int64_t bytes() const { return store_->bytes(); }
  // run_start() of this rank, of a training.
  double start() const { return start_; }

 private:
  void load_parameters(const Inputs& inputs, Communicator& world);

  double start_ = 0.0;
  std::optional<Store> store_;
  std::unique_ptr<Emulator> emulator_;  // where times are emulated
  std::optional<Executor> training_;    // uses the two
  std::optional<Executor> forward_;
  std::optional<Evaluator> evaluator_;
};

}  // namespace hidup
