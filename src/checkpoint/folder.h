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
};

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

// Deletes what a killed run left of files that it was writing.
void remove_partial_files(const std::string& folder);

// Of the complete checkpoints up to `step`, deletes all but the last `keep`; keep 0: none.
void remove_older(const std::string& folder, int64_t step, int64_t keep);

// Collective. Creates the folder on rank 0, tries to create a file in it, and returns whether all
// ranks see that. Throws CollectiveError.
bool create_shared_folder(Communicator& world, const std::string& folder);

}  // namespace hidup
