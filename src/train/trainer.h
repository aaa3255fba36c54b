// The training loop.
//
// The device decides which step changes nothing, and the scale of the loss. So the next step is
// given before the host reads the results of one, unless that one has times, or something is done
// between the two (validation, a checkpoint). A run that is asked to stop ends after the step that
// it gave already. All ranks agree on what happens between two steps in the exchange of their
// times (exchange()).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "deck/deck.h"
#include "io/timing_file.h"
#include "kernels/step_state.h"
#include "runtime/executor.h"
#include "train/batches.h"
#include "train/checkpoints.h"
#include "train/evaluate.h"
#include "train/report.h"
#include "train/stop.h"

namespace hidup {

// What a run does besides training; nothing of it is needed.
struct TrainingOutputs {
  TimingFile* timings = nullptr;       // rank 0 only
  Report* report = nullptr;            // rank 0 only
  StopWatch* stop_watch = nullptr;     // rank 0 only
  Checkpoints* checkpoints = nullptr;  // all ranks
  std::string gradients;               // file for the gradients of step 1; empty: none
  bool overwrite = false;              // of the gradient file
  std::function<void(const Iteration&)> on_step = nullptr;  // after every step, on every rank
  Evaluator* validation = nullptr;                          // all ranks
};

class Trainer {
 public:
  // `start`: run_start() of this rank.
  Trainer(const Deck& deck, const Batches& batches, Executor& executor, Communicator& world,
          double start, const TrainingOutputs& outputs);

  // Goes on where the run was that wrote the checkpoint.
  void resume(const CheckpointFile& checkpoint);

  // The steps that are left, unless something stops the run; says what did, also where it was the
  // last step. With checkpoints, one is written then. Where the device can, it has the next step
  // already while the host looks at one; so a run may stop a step later than it is asked to. An
  // Error that it throws is this rank's alone, but for a CollectiveError.
  StopReason run();

  // The step that runs, for the heartbeat, from any thread; 0 before the first.
  int64_t current_step() const { return step_; }

 private:
  // What ranks tell each other after a step.
  struct Status {
    BusyTimes busy;
    int64_t late = 0;    // instructions, where times are emulated
    double cpu_s = 0.0;  // of this process in the step, likewise
    StopReason stop = StopReason::none;
    bool save = false;      // a checkpoint is due by time; rank 0's counts
    bool diverged = false;  // loss or gradients are not finite, and a smaller scale does not help
  };

  bool has_timeline(int64_t step) const;
  bool is_timed(int64_t step) const;
  bool validates_after(int64_t step) const;
  bool saves_after(int64_t step) const;
  bool starts_next_early(int64_t step) const;
  void fill(int64_t step);  // inputs_
  void start_next();
  void finish_step(int64_t step);
  Status status();
  void exchange(const Status& mine);
  // Collective: says which operation it was that did not give finite numbers, and throws.
  [[noreturn]] void fail_not_finite(int64_t step);
  void between_steps(int64_t step);
  void record_timeline(int64_t step);
  // `wall_s`: here, whatever is emulated.
  void write_step(double wall_s);
  std::vector<NamedNumber> beside_the_loss() const;
  void read_expert_loads();
  void read_router_losses();
  // Collective: ranks may hold parts.
  void dump_gradients();

  const Deck& deck_;
  const Batches& batches_;
  Executor& executor_;
  Communicator& world_;
  double start_;
  TrainingOutputs outputs_;
  std::atomic<int64_t> step_ = 0;
  int64_t done_ = 0;          // steps before this run
  int64_t started_ = 0;       // the last step that was
  StepInputs inputs_;         // of the step that starts next
  kernels::StepState state_;  // as the last step that the host looked at left it
  // What all ranks have agreed on after the last step.
  StopReason stop_ = StopReason::none;
  bool save_ = false;
  bool diverged_ = false;
  double longest_s_ = 0.0;     // step of this run, but for the first
  double validation_s_ = 0.0;  // after the last step
  double cpu_s_ = 0.0;         // of this process until the last step

  // Of the last finished step; on rank 0.
  Iteration iteration_;
  std::vector<BusyTimes> busy_;          // by rank
  std::vector<int64_t> late_;            // by rank; empty where nothing is emulated
  double all_cpu_s_ = 0.0;               // of all ranks, likewise
  std::vector<int64_t> expert_tokens_;   // [MoE layers, experts]
  std::vector<int64_t> expert_dropped_;  // likewise
  bool warned_ = false;
};

}  // namespace hidup
