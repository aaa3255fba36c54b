// The checkpoints of a run: when they are due, and what is in them.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "deck/deck.h"
#include "kernels/step_state.h"
#include "runtime/executor.h"
#include "train/kept.h"

namespace hidup {

class Checkpoints {
 public:
  // `folder`: where they are written. `fixed`: the state without what changes from step to step.
  // Collective where the deck asks for checkpoints: finds out then, rather than after hours, that
  // they cannot be written.
  Checkpoints(const Deck& deck, std::string folder, TrainingState fixed, Executor& executor,
              Communicator& world);

  const std::string& folder() const { return folder_; }
  // Whether the deck asks for any, and so for one at the run's end.
  bool wanted() const { return wanted_; }
  // By the number of steps, and (each rank for itself) by time.
  bool is_due(int64_t step) const;
  bool is_due_by_time() const;
  // How long one would take now: as long as the last, or as a trial says. On rank 0.
  double expected_seconds();

  // Collective, after a step: starts writing, unless the step was written already.
  void save(int64_t step, const kernels::StepState& state);
  // Collective: until the last one is written. Throws CollectiveError(file) where that failed.
  void finish();
  // Of this run; empty before the first.
  const std::string& last_file() const { return last_file_; }

 private:
  CheckpointWriter& writer();

  const CheckpointDeck& deck_;
  std::string folder_;
  bool wanted_;
  TrainingState state_;
  Executor& executor_;
  Communicator& world_;
  KeptValues kept_;
  std::optional<CheckpointWriter> writer_;  // from the first one on
  std::optional<double> trial_s_;
  double saved_at_;
  int64_t saved_step_;
  std::string last_file_;
};

}  // namespace hidup
