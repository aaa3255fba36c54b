// Checkpoint files: tensors in their global shapes and the state of a training, so that any number
// of ranks can go on from them.
//
// A file STEP.ckpt.h5 is HDF5 with a checksum per MiB of every tensor (crc32c.h), and a checksum of
// all other content (frame.h). A file that has its name is complete.
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

// "parameters/NAME" or "optimizer/NAME.m" (.v, .master) in its global shape, which has elements.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// The state besides tensors: attributes of /state, named as the members. Texts have no zero bytes.
struct TrainingState {
  int64_t step = 0;     // done steps
  int64_t skipped = 0;  // done steps in which the optimizer changed nothing
  double loss_scale = 1.0;
  int64_t loss_scale_good_steps = 0;
  uint64_t seed = 0;
  std::string graph_hash;
  std::string program_version;
  std::string started_at;
  std::string strategy;  // text
  std::string model_deck;
  std::string cluster_deck;
  std::string resolved;    // both decks with all values
  std::string graph;       // text of model.graph, or empty
  uint64_t data_hash = 0;  // hash of the data files; 0: there were none
  std::string timing_file;
  std::vector<std::string> vocabulary;  // for data.tokenizer words, else empty
};

// Returns "step-00000100.ckpt.h5".
std::string checkpoint_name(int64_t step);

class FolderLock;

struct WriterOptions {
  std::string folder;
  // Name of the run in its checkpoints (run_name()). Checkpoints of other runs and their names
  // stay. Empty: every run's checkpoints count.
  std::string run = {};
  int64_t keep = 0;  // checkpoints to keep up to the written step; 0: all
  bool blocking = false;
  bool stop_on_error = false;   // else an error is a warning
  bool through_rank_0 = false;  // as if ranks did not see rank 0's folder; for tests
  FolderLock* lock = nullptr;   // this process's lock of the folder; on rank 0, may be null
  // Called on every rank, in the thread that writes, before the file of that step takes its name.
  // It may wait for actions of the caller after save().
  std::function<void(int64_t step)> before_name = nullptr;
};

class CheckpointWriter {
 public:
  // Collective. regions[i] is this rank's box of tensors[i] and may be empty. Ranks with the same
  // box divide the work; all boxes together must be the tensor. Creates the folder on rank 0, and
  // the memory for the copies. Throws CollectiveError.
  CheckpointWriter(Communicator& world, WriterOptions options, std::vector<StoredTensor> tensors,
                   const std::vector<Region>& regions);
  // Collective. Waits for the running write.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies `count` elements of this rank's box of tensor i, from local element `first`, to the
  // host.
  using CopyOut = std::function<void(size_t tensor, int64_t first, int64_t count, std::byte* to)>;

  // Collective, at a step boundary. Waits for the previous write, copies this rank's part into host
  // memory, and starts writing in a thread of its own (blocking: returns when it is done). With
  // stop_on_error it throws a CollectiveError where the previous write failed (blocking: this
  // write); otherwise it warns. Replaces the run's older file of the same step. With before_name,
  // blocking returns when only the name is missing.
  void save(const TrainingState& state, const CopyOut& copy);

  struct Result {
    bool succeeded = true;  // also before the first write; the same on all ranks
    std::string error;      // on rank 0
  };
  // Collective. Waits until the running write is done.
  Result wait();

  // Returns the last file that has its name, on rank 0 while no write runs; empty: none yet.
  const std::string& last_file() const;
  double last_seconds() const;  // of the last write on the slowest rank; 0: none yet
  int64_t bytes() const;        // bytes of all tensors
  bool through_rank_0() const;  // true if ranks do not see rank 0's folder

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class OpenFile;
struct StoredHeader;

// An open file with a valid header. Reading needs no other ranks.
class CheckpointFile {
 public:
  // Opens a file. Throws Error(file).
  explicit CheckpointFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& run() const;  // run of the checkpoint; empty: unknown
  const TrainingState& state() const;
  const std::vector<StoredTensor>& tensors() const;  // in the order of the file

  // read() and verify() need a process that sees the file (open_checkpoint() does not).

  // Reads a box, row-major in it. Throws Error(file).
  void read(size_t tensor, const Region& box, std::byte* out) const;
  // Verifies the blocks first, first + stride, ... of the file. Throws Error(file) with tensor and
  // block of the first wrong checksum.
  void verify(int64_t first, int64_t stride) const;

 private:
  friend class SharedOpening;
  CheckpointFile(std::string path, std::shared_ptr<const StoredHeader> header,
                 std::shared_ptr<const OpenFile> file)
      : path_(std::move(path)), header_(std::move(header)), file_(std::move(file)) {}

  std::string path_;
  std::shared_ptr<const StoredHeader> header_;
  std::shared_ptr<const OpenFile> file_;  // null: this process does not see the file
  bool all_see_it_ = true;                // all ranks that opened the file together see it
};

// The functions below are collective. Ranks that do not see rank 0's file get all content from it.
// `through_rank_0` acts as if no rank saw it; for tests.

// Opens the run's newest checkpoint in the folder, by its step, whose blocks are all valid,
// whatever its name; with empty `run` the newest of any run. Rank 0 warns of each truncated or
// corrupted one with tensor and block, and names the checkpoints of other runs that it skips.
// Returns nothing where there is none, or no folder. Throws CollectiveError.
std::optional<CheckpointFile> open_newest(Communicator& world, const std::string& folder,
                                          const std::string& run = "", bool through_rank_0 = false);

// Opens a file and verifies all its blocks, which the ranks divide. Throws CollectiveError(file).
CheckpointFile open_checkpoint(Communicator& world, const std::string& path,
                               bool through_rank_0 = false);

struct BoxRequest {
  size_t tensor = 0;
  Region box;
  std::byte* out = nullptr;  // row-major in the box
};

// Reads each rank's own boxes of a file that all ranks have opened. Throws CollectiveError.
void read_boxes(Communicator& world, const CheckpointFile& file,
                const std::vector<BoxRequest>& wanted);

}  // namespace hidup
