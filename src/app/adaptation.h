// Changes the shares of the ranks while a run trains (train.adapt: shares).
//
// Rank 0 hears which ranks became slow (train/stragglers.h), plans shares for these paces beside
// the steps, and asks for the change once it has the plan. The guard (train/guard.h) measures it
// and may ask for the way back. A change takes place between two steps: the state moves through
// host memory into another Execution (train/held_state.h).
//
// In emulated time the plan is there at once, so that the speed of this machine decides nothing.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include "app/inputs.h"
#include "app/machine.h"
#include "cost/rank_costs.h"
#include "cost/slow_ranks.h"
#include "io/timing_file.h"
#include "program/program.h"
#include "sharding/strategy.h"
#include "train/guard.h"

namespace hidup {

// Throws Error(usage) where the deck asks to adapt and lacks the times that this rests on.
void check_that_it_can_adapt(const Inputs& inputs, const MachineCosts& known);

// For rank 0.
class Adaptation {
 public:
  // Everything outlives the object. `known` has costs.
  Adaptation(const Inputs& inputs, const MachineCosts& known, const Strategy& strategy,
             TimingFile* timings);

  // Hears news of Stragglers.
  void hear(const SlowNews& news, const WatchedPart& part);
  // Looks at the step that ended, at its trial and at the plan.
  void look(const Iteration& iteration);

  bool wants_change() const { return wanted_.has_value(); }
  // Returns the wanted strategy, with which the steps after this one run.
  Strategy take(int64_t step);
  // `program`: that of the strategy taken.
  void note_work(const Program& program);

 private:
  struct Planned {
    Strategy strategy;
    double before_s = 0.0;  // predicted steps at the present paces
    double after_s = 0.0;
  };
  struct Wanted {
    Strategy strategy;
    bool trial = true;  // false: it undoes one
  };

  std::optional<Planned> plan(const std::vector<double>& slower) const;
  void start_to_plan();
  void take_plan();
  void end_trial(const Trial& trial);

  const Inputs& inputs_;
  const MachineCosts& known_;
  TimingFile* timings_;
  Strategy strategy_;           // of the running steps
  Strategy before_;             // of the steps before the trial
  std::vector<double> slower_;  // by rank, factor on its time
  std::vector<double> work_;    // parts_of_work() (app/class_report.h) of the running program
  bool stale_ = false;          // paces changed since the last plan
  Guard guard_;
  std::future<std::optional<Planned>> planning_;
  std::optional<Wanted> wanted_;
};

}  // namespace hidup
