// Checkpoint files: tensors in their global shapes and the state of a training, so that any number
// of ranks can go on from them.
//
// A file STEP.ckpt.h5 is HDF5 with a checksum per MiB of every tensor (crc32c.h), and one of all
// else (frame.h). It is complete, or it does not have its name.
//
// Rank 0 makes the HDF5 file with all datasets allocated; all ranks write their parts at the
// datasets' offsets, and replicas divide the work (division.h). Blocks that several ranks hold
// parts of go to one of them (exchange.h), unless each has long runs. If ranks do not see rank 0's
// folder, all goes through rank 0. A file takes its name when the timing file has the rows of its
// steps on the disk (TimingFile::wait_for_step()), and says whose it is in the bytes before the
// HDF5 content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "core/dtype.h"
#include "core/region.h"
#include "core/shape.h"

namespace hidup {

inline constexpr int64_t kCheckpointFormat = 1;  // format_version in the file

// "parameters/NAME" or "optimizer/NAME.m" (.v, .master), in its global shape, which has elements.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// What is kept besides tensors: attributes of /state, by the members' names. Texts have no zero
// bytes.
struct TrainingState {
  int64_t step = 0;     // steps that are done
  int64_t skipped = 0;  // of these, steps in which the optimizer changed nothing
  double loss_scale = 1.0;
  int64_t loss_scale_good_steps = 0;
  uint64_t seed = 0;
  std::string graph_hash;
  std::string program_version;
  std::string started_at;
  std::string strategy;  // text
  std::string model_deck;
  std::string cluster_deck;
  std::string resolved;    // decks with all values
  std::string graph;       // text of model.graph, or empty
  uint64_t data_hash = 0;  // of the files that were read; 0: there were none
  std::string timing_file;
  std::vector<std::string> vocabulary;  // of data.tokenizer words; empty else
};

// "step-00000100.ckpt.h5"
std::string checkpoint_name(int64_t step);

class FolderLock;

struct WriterOptions {
  std::string folder;
  // Whose the checkpoints are, as they say themselves (run_name()). Those of another run stay, and
  // their names, too. Empty: every run's.
  std::string run = {};
  int64_t keep = 0;  // the last ones of those up to the step that is written; 0: all
  bool blocking = false;
  bool stop_on_error = false;   // else a warning
  bool through_rank_0 = false;  // as where ranks do not see rank 0's folder; for tests
  FolderLock* lock = nullptr;   // that this process has of the folder; on rank 0, may be null
  // Called on every rank, in the thread that writes, before the file of that step takes its name.
  // It may wait for what the caller does after save().
  std::function<void(int64_t step)> before_name = nullptr;
};

class CheckpointWriter {
 public:
  // Collective. regions[i]: this rank's box of tensors[i]; it may be empty. Ranks with the same box
  // divide the work; all boxes together must be the tensor. Creates the folder on rank 0, and the
  // memory for the copies. Throws CollectiveError.
  CheckpointWriter(Communicator& world, WriterOptions options, std::vector<StoredTensor> tensors,
                   const std::vector<Region>& regions);
  // Collective. Waits for the running write.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies `count` elements of this rank's box of tensor i, from its row-major local element
  // `first`, to host memory.
  using CopyOut = std::function<void(size_t tensor, int64_t first, int64_t count, std::byte* to)>;

  // Collective, at a step boundary. Waits for the write before it, copies what this rank writes
  // into host memory, and starts writing in a thread of its own (blocking: returns when it is
  // done). With stop_on_error it throws a CollectiveError where the write before it failed
  // (blocking: its own one); else that was a warning. The run's older file of the same step is
  // replaced. With before_name, blocking returns when all is done but the name.
  void save(const TrainingState& state, const CopyOut& copy);

  struct Result {
    bool succeeded = true;  // also where nothing was written yet; the same on all ranks
    std::string error;      // on rank 0
  };
  // Collective: until the running write is done.
  Result wait();

  // The last one that has its name, on rank 0 while nothing is written; empty: none yet.
  const std::string& last_file() const;
  double last_seconds() const;  // from copy to end, slowest rank, of the last write; 0: none yet
  int64_t bytes() const;        // of all tensors
  bool through_rank_0() const;  // whether ranks do not see rank 0's folder

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class OpenFile;
struct StoredHeader;

// A file that was opened and whose header is right. Pure reading, no ranks.
class CheckpointFile {
 public:
  // Throws Error(file).
  explicit CheckpointFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& run() const;  // whose it is; empty: it does not say
  const TrainingState& state() const;
  const std::vector<StoredTensor>& tensors() const;  // in the order in which they lie in the file

  // The next two only where this process sees the file (open_checkpoint() does not need that).

  // A box, row-major in it. Throws Error(file).
  void read(size_t tensor, const Region& box, std::byte* out) const;
  // Throws Error(file) naming tensor and block of the first wrong checksum among the file's blocks
  // first, first + stride, ...
  void verify(int64_t first, int64_t stride) const;

 private:
  friend class SharedOpening;
  CheckpointFile(std::string path, std::shared_ptr<const StoredHeader> header,
                 std::shared_ptr<const OpenFile> file)
      : path_(std::move(path)), header_(std::move(header)), file_(std::move(file)) {}

  std::string path_;
  std::shared_ptr<const StoredHeader> header_;
  std::shared_ptr<const OpenFile> file_;  // null: this process does not see it
  bool all_see_it_ = true;                // all ranks that opened it together
};

// The functions below are collective. Ranks that do not see rank 0's file get all from it.
// `through_rank_0`: as if no rank saw it; for tests.

// The run's newest checkpoint in the folder whose blocks are all right, by its step, whatever its
// name; `run` empty: the newest of any run. Rank 0 warns of every one that is truncated or
// corrupted, and tells tensor and block, and says which other runs' are passed by. Nothing: there
// is none, or no folder. Throws CollectiveError.
std::optional<CheckpointFile> open_newest(Communicator& world, const std::string& folder,
                                          const std::string& run = "", bool through_rank_0 = false);

// One file, whose blocks are all verified; the ranks divide them. Throws CollectiveError(file).
CheckpointFile open_checkpoint(Communicator& world, const std::string& path,
                               bool through_rank_0 = false);

struct BoxRequest {
  size_t tensor = 0;
  Region box;
  std::byte* out = nullptr;  // row-major in the box
};

// Each rank its own boxes of a file that all have opened. Throws CollectiveError.
void read_boxes(Communicator& world, const CheckpointFile& file,
                const std::vector<BoxRequest>& wanted);

}  // namespace hidup
