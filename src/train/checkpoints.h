// The checkpoints of a run: when they are due, and what is in them.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder_lock.h"
#include "comm/communicator.h"
#include "deck/deck.h"
#include "io/timing_file.h"
#include "kernels/step_state.h"
#include "runtime/executor.h"
#include "train/kept.h"

namespace hidup {

struct CheckpointDeck;

// Whether the deck asks for any, and so for one at the run's end.
bool asks_for_checkpoints(const Deck& deck);

// Where they are written, for whom.
struct CheckpointPlace {
  std::string folder;
  std::string run;                // run_name()
  FolderLock* lock = nullptr;     // on rank 0; null: none
  TimingFile* timings = nullptr;  // on rank 0: has the rows of all steps that a checkpoint has
};

class Checkpoints {
 public:
  // `fixed`: the state without what changes from step to step.
  // Collective where the deck asks for checkpoints: finds out then, rather than after hours, that
  // they cannot be written.
  Checkpoints(const Deck& deck, CheckpointPlace place, TrainingState fixed, Executor& executor,
              Communicator& world);

  const std::string& folder() const { return place_.folder; }
  // Whether the deck asks for any, and so for one at the run's end.
  bool wanted() const { return wanted_; }
  // By the number of steps, and (each rank for itself) by time.
  bool is_due(int64_t step) const;
  bool is_due_by_time() const;
  // How long one would take now: as long as the last, or as a trial says. On rank 0.
  double expected_seconds();

  // Collective, after a step: starts writing, unless the step was written already. The file takes
  // its name when the step's row is in the timing file: so the caller appends it next.
  void save(int64_t step, const kernels::StepState& state);
  // Collective: until the last one is written. Throws CollectiveError(file) where that failed.
  void finish();
  // Of this run, on rank 0 while nothing is written; empty before the first.
  std::string last_file() const { return writer_ ? writer_->last_file() : ""; }

 private:
  CheckpointWriter& writer();

  const CheckpointDeck& deck_;
  CheckpointPlace place_;
  bool wanted_;
  TrainingState state_;
  Executor& executor_;
  Communicator& world_;
  KeptValues kept_;
  std::optional<CheckpointWriter> writer_;  // from the first one on
  std::optional<double> trial_s_;
  double saved_at_;
  int64_t saved_step_;
};

}  // namespace hidup
