// The checkpoints of a run: their times and their contents.
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
#include "train/persistent.h"

namespace hidup {

struct CheckpointDeck;

// Returns true if the deck asks for checkpoints, which includes one at the run's end.
bool asks_for_checkpoints(const Deck& deck);

// The folder, name and companions of a run's checkpoints.
struct CheckpointPlace {
  std::string folder;
  std::string run;                // run_name()
  FolderLock* lock = nullptr;     // on rank 0; null: none
  TimingFile* timings = nullptr;  // on rank 0: has rows for all steps of a checkpoint
};

class Checkpoints {
 public:
  // `fixed`: the state that does not change from step to step. Collective where the deck asks for
  // checkpoints: fails at once, rather than after hours, if they cannot be written.
  Checkpoints(const Deck& deck, CheckpointPlace place, TrainingState fixed, Executor& executor,
              Communicator& world);

  // Collective, after finish(). Goes on with another program of the same training.
  void go_on_with(Executor& executor);

  const std::string& folder() const { return place_.folder; }
  // Returns true if the deck asks for checkpoints, which includes one at the run's end.
  bool wanted() const { return wanted_; }
  // Return true if a checkpoint is due, by the number of steps or (each rank for itself) by time.
  bool is_due(int64_t step) const;
  bool is_due_by_time() const;
  // Returns the seconds that a checkpoint would take, from the last one or a trial. On rank 0.
  double expected_seconds();

  // Collective, after a step: starts to write a checkpoint, unless this step has one. The file gets
  // its final name once the step's row is in the timing file, so the caller appends the row next.
  void save(int64_t step, const kernels::StepState& state);
  // Collective. Waits for the last checkpoint. Throws CollectiveError(file) if writing it failed.
  void finish();
  // Returns this run's last file, on rank 0 while nothing is written; empty before the first.
  std::string last_file() const {
    return writer_ && !writer_->last_file().empty() ? writer_->last_file() : last_file_;
  }

 private:
  CheckpointWriter& writer();

  const CheckpointDeck& deck_;
  CheckpointPlace place_;
  bool wanted_;
  TrainingState state_;
  Executor* executor_;
  Communicator& world_;
  PersistentValues kept_;
  std::optional<CheckpointWriter> writer_;  // from the first checkpoint on
  std::string last_file_;                   // of earlier writers
  std::optional<double> trial_s_;
  double saved_at_;
  int64_t saved_step_;
};

}  // namespace hidup
