// Failed writes: all ranks know of them, no part of them stays, and the checkpoint before does.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "checkpoint/checkpoint.h"
#include "child.h"
#include "comm/collective.h"
#include "fake_ranks/fake_ranks.h"
#include "fake_ranks/forwarding_rank.h"
#include "sample.h"
#include "temporary_folder.h"

// The address sanitizer calls this function: HDF5's memory of a failed file is leaked on purpose.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

namespace hidup {
namespace {

// A rank that gets wrong texts from rank 0 once `wrong` is set, so that it cannot open the file.
class MisledRank final : public ForwardingRank {
 public:
  MisledRank(std::unique_ptr<Communicator> own, const bool& wrong)
      : ForwardingRank(std::move(own)), wrong_(wrong) {}

  using ForwardingRank::broadcast;
  std::string broadcast(const std::string& text) override {
    std::string received = own().broadcast(text);
    if (wrong_) {
      std::ranges::replace(received, 'p', 'q');
    }
    return received;
  }
  std::unique_ptr<Communicator> split(int64_t color) override {
    return std::make_unique<MisledRank>(own().split(color), wrong_);
  }

 private:
  const bool& wrong_;
};

TEST(FailingCheckpoint, OfOneRankIsThatOfAll) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::tensors();
  const auto boxes = sample::whole_boxes(tensors, 3);
  run_ranks(3, [&](Communicator& world) {
    const sample::Boxes& mine = boxes[static_cast<size_t>(world.rank())];
    bool wrong = false;
    MisledRank misled(world.split(0), wrong);
    CheckpointWriter writer(misled, {.folder = folder / ""}, tensors, mine);
    for (int64_t step = 1; step <= 3; ++step) {
      wrong = step == 2 && world.rank() == 2;
      writer.save(sample::state(step), sample::copy_out(tensors, mine, step));
      const CheckpointWriter::Result result = writer.wait();
      EXPECT_EQ(result.succeeded, step != 2);
      const bool tells = world.rank() == 0 && step == 2;
      EXPECT_EQ(result.error.find("cannot open the file: no such file") != std::string::npos, tells)
          << result.error;
    }
  });
  const std::vector<std::string> expected = {checkpoint_name(1), checkpoint_name(3)};
  EXPECT_EQ(folder.names(), expected);
}

TEST(FailingCheckpoint, OfAFolderThatCannotBe) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "") + "/folder";
  const std::vector<StoredTensor> tensors = sample::small_tensors();
  int failures = 0;
  run_ranks(2, [&](Communicator& world) {
    try {
      const CheckpointWriter writer(world, {.folder = path}, tensors,
                                    sample::whole_boxes(tensors, 1)[0]);
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      EXPECT_EQ(std::string(error.what()),
                world.rank() == 0 ? path + ": cannot create the folder: not a directory" : "");
      if (world.rank() == 0) {
        ++failures;
      }
    }
  });
  EXPECT_EQ(failures, 1);
}

// Mounts a small file system that this process alone sees.
bool mount_disk(const std::string& folder) {
  std::filesystem::create_directory(folder);
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=20m") == 0;
}

// Writes to a disk that has room for one checkpoint and a part of the next.
void write_until_full(Communicator& world, const std::string& disk, bool through_rank_0) {
  const std::vector<StoredTensor> tensors = sample::tensors();
  const sample::Boxes mine = sample::whole_boxes(tensors, 1)[0];
  CheckpointWriter writer(world,
                          {.folder = disk, .stop_on_error = true, .through_rank_0 = through_rank_0},
                          tensors, mine);
  const auto save = [&](int64_t step) {
    writer.save(sample::state(step), sample::copy_out(tensors, mine, step));
  };
  save(1);
  save(2);
  bool thrown = false;
  try {
    save(3);
  } catch (const CollectiveError& error) {
    thrown = true;
    EXPECT_EQ(error.code(), ExitCode::file);
    const std::string message = error.what();
    EXPECT_EQ(message.find(checkpoint_name(2)) != std::string::npos, world.rank() == 0);
    EXPECT_EQ(message.ends_with("no space left on device"), world.rank() == 0) << message;
  }
  EXPECT_TRUE(thrown);
  EXPECT_FALSE(writer.wait().succeeded);
  {
    const auto file = open_newest(world, disk);
    ASSERT_TRUE(file.has_value());
    sample::expect_content(*file, tensors, 1);
  }
  world.barrier();  // no rank has the file open now
  if (world.rank() == 0) {
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(disk), {}), 1);
    std::filesystem::remove(disk + "/" + checkpoint_name(1));  // makes room
  }
  world.barrier();
  save(4);
  EXPECT_TRUE(writer.wait().succeeded);
}

TEST(FailingCheckpoint, OnAFullDisk) {
  const TemporaryFolder folder;
  constexpr int kCannotMount = 77;
  for (const bool through_rank_0 : {false, true}) {
    Child child([&](const Child::Report&) {
      const std::string disk = folder / (through_rank_0 ? "one" : "other");
      if (!mount_disk(disk)) {
        return kCannotMount;
      }
      run_ranks(3, [&](Communicator& world) { write_until_full(world, disk, through_rank_0); });
      return testing::Test::HasFailure() ? 1 : 0;
    });
    const int status = child.wait();
    if (status == kCannotMount) {
      GTEST_SKIP() << "needs the right to mount a file system";
    }
    EXPECT_EQ(status, 0) << through_rank_0;
  }
}

}  // namespace
}  // namespace hidup
