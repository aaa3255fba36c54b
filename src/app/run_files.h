// The outputs of a run, and the checkpoint that it continues.
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

// The command line's options for them.
struct RunFileOptions {
  std::string out;        // the timing file; empty: no training and no outputs
  bool names_out = true;  // the user chose `out`: other runs' checkpoints do not count
  std::string gradients;  // empty: none
  std::string resume;     // a checkpoint, or auto; empty: none
  bool overwrite = false;
  std::vector<NamedFile> inputs;  // files that no output may replace
};

struct RunFiles {
  std::string out;                           // the timing file; a continued run has a new name
  std::string checkpoints;                   // the folder
  std::string run;                           // owner of the checkpoints (run_name()); on rank 0
  std::unique_ptr<FolderLock> lock;          // on rank 0, if the run writes checkpoints
  std::optional<CheckpointFile> checkpoint;  // the checkpoint to continue

  bool is_training() const { return !out.empty(); }
  int64_t steps_done() const { return checkpoint ? checkpoint->state().step : 0; }
};

// Returns the checkpoint folder of a run with that timing file.
std::string checkpoint_folder(const Deck& deck, const std::string& out);

// Returns a free name for a continued run's timing file, whose old one stays: NAME.h5, NAME-2.h5,
// ...
std::string next_timing_file(const std::string& out);

// Opens the checkpoint, and prepares the outputs of a training. Throws CollectiveError(file) where
// a file is missing or damaged, or exists without `overwrite`; (usage) where outputs collide.
// Collective.
RunFiles open_run_files(const RunFileOptions& options, const Deck& deck, Communicator& world);

// Removes an earlier run's checkpoints on rank 0 for a new run, which would take them for its own.
void remove_old_checkpoints(const RunFiles& files);

}  // namespace hidup
