// The training loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "deck/deck.h"
#include "io/timing_file.h"
#include "runtime/executor.h"
#include "train/batches.h"
#include "train/loss_scale.h"
#include "train/report.h"

namespace hidup {

struct TrainingOutputs {
  TimingFile* timings = nullptr;  // rank 0 only
  Report* report = nullptr;       // rank 0 only
  std::string gradients;          // file for the gradients of step 1; empty: none
  bool overwrite = false;         // of the gradient file
  std::function<void(const Iteration&)> on_step = nullptr;  // after every step, on every rank
};

class Trainer {
 public:
  // `start`: run_start() of this rank.
  Trainer(const Deck& deck, const Batches& batches, Executor& executor, Communicator& world,
          double start, const TrainingOutputs& outputs);

  // All steps. An Error that it throws is this rank's alone.
  void run();

  // The step that runs, for the heartbeat, from any thread; 0 before the first.
  int64_t current_step() const { return step_; }

 private:
  void finish_step(int64_t step);
  void record_timeline(int64_t step);
  void write_step(double wall_s);
  void read_expert_loads();
  // Collective: ranks may hold parts. `loss_scale`: that of the step.
  void dump_gradients(float loss_scale);

  const Deck& deck_;
  const Batches& batches_;
  Executor& executor_;
  Communicator& world_;
  double start_;
  TrainingOutputs outputs_;
  std::atomic<int64_t> step_ = 0;
  StepInputs batch_;  // members, because a step that runs reads it even where run() throws
  StepInputs next_;

  // Of the last finished step; on rank 0.
  Iteration iteration_;
  std::vector<BusyTimes> busy_;          // by rank
  std::vector<int64_t> expert_tokens_;   // [MoE layers, experts]
  std::vector<int64_t> expert_dropped_;  // likewise
  LossScale loss_scale_;
  bool warned_ = false;
};

}  // namespace hidup
