// The folder of checkpoints, as rank 0 sees it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
  std::string run;  // run_name() of its run; empty: unknown
};

// Returns the name of a run in its checkpoints: its first timing file, relative to their folder. So
// the folder and the file may be moved together.
std::string run_name(const std::string& folder, const std::string& timing_file);

// Returns the timing file of that run, for messages.
std::string file_of_run(const std::string& folder, const std::string& run);

// Returns true if a checkpoint is that run's, or of an unknown run. With empty `run`, any run's.
inline bool is_of(const FoundCheckpoint& found, const std::string& run) {
  return run.empty() || found.run.empty() || found.run == run;
}

// The reason why a file is no complete checkpoint.
struct DamagedCheckpoint {
  std::string error;
};

struct FolderContent {
  std::vector<FoundCheckpoint> complete;  // as far as user blocks show; newest first
  std::vector<DamagedCheckpoint> damaged;
};

// Lists all *.ckpt.h5 by their user blocks. A missing folder has none. Throws Error(file).
FolderContent list_checkpoints(const std::string& folder);

// Returns the run's complete checkpoints, newest first. Throws Error(file).
std::vector<FoundCheckpoint> checkpoints_of(const std::string& folder, const std::string& run);

// Returns the path of the run's checkpoint of the step. It avoids the names of other runs' files.
std::string place_for(const std::string& folder, const std::string& run, int64_t step);

// Deletes files that a killed run had not finished.
void remove_partial_files(const std::string& folder);

// Deletes the run's complete checkpoints up to `step` except the last `keep`; keep 0: none.
void remove_older(const std::string& folder, const std::string& run, int64_t step, int64_t keep);

// Collective. Creates the folder on rank 0, tries to create a file in it, and returns true if all
// ranks see that. Throws CollectiveError.
bool create_shared_folder(Communicator& world, const std::string& folder);

}  // namespace hidup
