// Where a run writes, and the checkpoint that it goes on from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder_lock.h"
#include "comm/communicator.h"
#include "deck/deck.h"
#include "io/output_path.h"

namespace hidup {

// What the command line says of it.
struct RunFileOptions {
  std::string out;        // the timing file; empty: nothing is trained, and nothing written
  bool names_out = true;  // and the user says so: checkpoints of others are none of the run's
  std::string gradients;  // empty: none
  std::string resume;     // a checkpoint, or auto; empty: none
  bool overwrite = false;
  std::vector<NamedFile> inputs;  // which must not be outputs
};

struct RunFiles {
  std::string out;          // the timing file of this run: one that goes on has a name of its own
  std::string checkpoints;  // the folder
  std::string run;          // whose checkpoints they are (run_name()); on rank 0
  std::unique_ptr<FolderLock> lock;          // on rank 0, where the run writes checkpoints
  std::optional<CheckpointFile> checkpoint;  // that the run goes on from

  bool is_training() const { return !out.empty(); }
  int64_t steps_done() const { return checkpoint ? checkpoint->state().step : 0; }
};

// Where the checkpoints of a run with that timing file are.
std::string checkpoint_folder(const Deck& deck, const std::string& out);

// The timing file of a run that goes on: that of the run before stays. NAME.h5, NAME-2.h5, ...
std::string next_timing_file(const std::string& out);

// Collective. Opens the checkpoint, and makes way for the outputs of a training. Throws
// CollectiveError(file) where a file is missing or damaged, or exists without `overwrite`; (usage)
// where outputs collide.
RunFiles open_run_files(const RunFileOptions& options, const Deck& deck, Communicator& world);

// On rank 0, for a run that starts anew: checkpoints of an earlier one would be taken for its own.
void remove_old_checkpoints(const RunFiles& files);

}  // namespace hidup
