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
  std::string run;  // run_name() of whose it is; empty: it does not say
};

// How a run is called in its checkpoints: its first timing file, relative to their folder. So the
// folder and the file may be moved together.
std::string run_name(const std::string& folder, const std::string& timing_file);

// The timing file of that name, for messages.
std::string file_of_run(const std::string& folder, const std::string& run);

// Whether a checkpoint is that run's, as far as it says. `run` empty: any run's.
inline bool is_of(const FoundCheckpoint& found, const std::string& run) {
  return run.empty() || found.run.empty() || found.run == run;
}

// A file that cannot be a complete checkpoint, and why.
struct DamagedCheckpoint {
  std::string error;
};

struct FolderContent {
  std::vector<FoundCheckpoint> complete;  // to all appearance: newest first
  std::vector<DamagedCheckpoint> damaged;
};

// All *.ckpt.h5, of which only the user block is read. A folder that is not there has none. Throws
// Error(file).
FolderContent list_checkpoints(const std::string& folder);

// Of the complete ones, those of the run: newest first. Throws Error(file).
std::vector<FoundCheckpoint> checkpoints_of(const std::string& folder, const std::string& run);

// Where the run's checkpoint of the step goes: the name of another run's is not taken from it.
std::string place_for(const std::string& folder, const std::string& run, int64_t step);

// Deletes what a killed run left of files that it was writing.
void remove_partial_files(const std::string& folder);

// Of the run's complete checkpoints up to `step`, deletes all but the last `keep`; keep 0: none.
void remove_older(const std::string& folder, const std::string& run, int64_t step, int64_t keep);

// Collective. Creates the folder on rank 0, tries to create a file in it, and returns whether all
// ranks see that. Throws CollectiveError.
bool create_shared_folder(Communicator& world, const std::string& folder);

}  // namespace hidup
