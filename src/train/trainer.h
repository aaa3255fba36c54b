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
#include "train/stragglers.h"

namespace hidup {

// The optional outputs and helpers of a run.
struct TrainingOutputs {
  TimingFile* timings = nullptr;       // rank 0 only
  Report* report = nullptr;            // rank 0 only
  StopWatch* stop_watch = nullptr;     // rank 0 only
  Checkpoints* checkpoints = nullptr;  // all ranks
  Stragglers* stragglers = nullptr;    // all ranks
  std::string gradients;               // file for the gradients of step 1; empty: none
  bool overwrite = false;              // replaces the gradient file
  std::function<void(const Iteration&)> on_step = nullptr;  // after every step, on every rank
  // On rank 0, after every step: returns true where the run is to stop for a change.
  std::function<bool()> wants_change = nullptr;
  Evaluator* validation = nullptr;  // all ranks
};

class Trainer {
 public:
  // `start`: result of run_start() on this rank.
  Trainer(const Deck& deck, const Batches& batches, Executor& executor, Communicator& world,
          double start, const TrainingOutputs& outputs);

  // Continues from the state of the run that wrote the checkpoint.
  void resume(const CheckpointFile& checkpoint);

  // Continues after a step of another trainer of this run, which stopped for a change.
  void go_on_after(int64_t step, const kernels::StepState& state);
  // Returns the state after the last step.
  const kernels::StepState& state() const { return state_; }

  // Runs the remaining steps unless something stops the run, and returns the reason, also if it
  // came at the last step. With checkpoints, writes one at the end. Where the device supports it,
  // the host enqueues the next step before it looks at a finished one, so a run may stop one step
  // late. Errors are this rank's alone, except for a CollectiveError.
  StopReason run();

  // Returns the running step, or 0 before the first. Any thread may call it, as the heartbeat does.
  int64_t current_step() const { return step_; }

 private:
  // The state that ranks exchange after a step.
  struct Status {
    BusyTimes busy;
    int64_t late = 0;    // instructions, if times are emulated
    double cpu_s = 0.0;  // of this process in the step, if times are emulated
    StopReason stop = StopReason::none;
    bool save = false;      // a checkpoint is due by time; rank 0's value counts
    bool diverged = false;  // loss or gradients are not finite, and no smaller scale helps
  };

  bool has_timeline(int64_t step) const;
  bool is_timed(int64_t step) const;
  bool validates_after(int64_t step) const;
  bool saves_after(int64_t step) const;
  bool starts_next_early(int64_t step) const;
  void fill(int64_t step);  // fills inputs_
  void start_next();
  void finish_step(int64_t step);
  Status status();
  void exchange(const Status& mine);
  // Collective. Throws an error that names the operation whose result is not finite.
  [[noreturn]] void fail_not_finite(int64_t step);
  void between_steps(int64_t step);
  void record_timeline(int64_t step);
  // `wall_s`: the measured time, also if times are emulated.
  void write_step(double wall_s);
  std::vector<NamedNumber> beside_the_loss() const;
  void read_expert_loads();
  void read_router_losses();
  // Collective, because ranks may hold parts.
  void dump_gradients();

  const Deck& deck_;
  const Batches& batches_;
  Executor& executor_;
  Communicator& world_;
  double start_;
  TrainingOutputs outputs_;
  std::atomic<int64_t> step_ = 0;
  int64_t done_ = 0;          // steps before this run
  int64_t started_ = 0;       // the last step that was started
  StepInputs inputs_;         // of the next step
  kernels::StepState state_;  // after the last step that the host looked at
  // All ranks agreed on these after the last step.
  StopReason stop_ = StopReason::none;
  bool save_ = false;
  bool diverged_ = false;
  double longest_s_ = 0.0;     // longest step of this run except the first
  double validation_s_ = 0.0;  // after the last step
  double cpu_s_ = 0.0;         // of this process up to the last step

  // Results of the last finished step, on rank 0.
  Iteration iteration_;
  std::vector<BusyTimes> busy_;          // by rank
  std::vector<int64_t> late_;            // by rank; empty without emulation
  double all_cpu_s_ = 0.0;               // of all ranks; 0 without emulation
  std::vector<int64_t> expert_tokens_;   // [MoE layers, experts]
  std::vector<int64_t> expert_dropped_;  // [MoE layers, experts]
  bool warned_ = false;
};

}  // namespace hidup
