// kill -9 at any moment leaves the newest complete checkpoint whole, and no older than the last
// finished one.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "child.h"
#include "fake_ranks/fake_ranks.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

// Progress that a child reports; it outlives the child.
struct Progress {
  std::atomic<int64_t> done = 0;  // the last step that was written
  std::atomic<bool> is_writing = false;
  std::atomic<int64_t> microseconds = 30'000;  // of a write; a guess at first
};

class SharedProgress {
 public:
  SharedProgress()
      : progress_(new (mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Progress) {}
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress() { munmap(progress_, sizeof(Progress)); }
  Progress* operator->() const { return progress_; }

 private:
  Progress* progress_;
};

const std::vector<StoredTensor> kTensors = {{"parameters/a", DType::f32, {300, 700}},
                                            {"optimizer/a.m", DType::bf16, {300, 700}},
                                            {"optimizer/a.v", DType::f32, {300, 1000}}};

// Writes checkpoints until it is killed.
void keep_writing(const std::string& folder, const SharedProgress& progress) {
  const auto boxes = sample::whole_boxes(kTensors, 2);
  run_ranks(2, [&](Communicator& world) {
    const sample::Boxes& mine = boxes[static_cast<size_t>(world.rank())];
    CheckpointWriter writer(world, {.folder = folder, .keep = 2, .blocking = true}, kTensors, mine);
    for (int64_t step = progress->done + 1;; ++step) {
      const auto copy = sample::copy_out(kTensors, mine, step);
      writer.save(sample::state(step), [&](size_t i, int64_t first, int64_t count, std::byte* to) {
        copy(i, first, count, to);
        progress->is_writing = true;
      });
      progress->done = step;
      progress->is_writing = false;
      progress->microseconds = static_cast<int64_t>(writer.last_seconds() * 1e6);
    }
  });
}

TEST(KilledWriter, LeavesTheCheckpointBefore) {
  constexpr int kKills = 200;
  const TemporaryFolder folder;
  const SharedProgress progress;
  const auto self = make_self_communicator();
  std::mt19937 random(1);
  int inside = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    progress->is_writing = false;
    Child child([&](const Child::Report&) {
      keep_writing(folder / "", progress);
      return 0;
    });
    // Slow writes rarely end before the kill, so fast ones alone would say how long a write takes.
    // Every fourth child therefore ends its first write.
    const int64_t before = progress->done;
    while (kill % 4 == 0 ? progress->done == before : !progress->is_writing) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    // The kill falls into the next write or the one after it.
    const auto range = static_cast<uint64_t>(2 * progress->microseconds + 1000);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % range));
    child.kill();
    inside += progress->is_writing ? 1 : 0;
    const int64_t done = progress->done;
    ASSERT_GE(done, before + (kill % 4 == 0 ? 1 : 0));
    for (const std::string& name : folder.names()) {
      if (name.ends_with(".ckpt.h5")) {
        CheckpointFile(folder / name).verify(0, 1);
      }
    }
    const auto file = open_newest(*self, folder / "");
    ASSERT_TRUE(file.has_value() || done == 0);
    if (file) {
      ASSERT_GE(file->state().step, done);
      ASSERT_LE(file->state().step, done + 1);
      sample::expect_content(*file, kTensors, file->state().step);
      progress->done = file->state().step;
    }
  }
  EXPECT_GE(inside, kKills / 2);
  EXPECT_GE(progress->done, kKills / 4);
}

}  // namespace
}  // namespace hidup
