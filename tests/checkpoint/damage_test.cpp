// Damaged files: errors name the tensor and the block, and a resume passes them by.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "checkpoint/checkpoint.h"
#include "checkpoint/frame.h"
#include "comm/collective.h"
#include "fake_ranks/fake_ranks.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

void flip_byte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 0x10));
}

// Returns the byte in the file where the content of a tensor's element lies.
int64_t find_element(const std::string& path, const std::vector<StoredTensor>& tensors,
                     size_t tensor, int64_t element, int64_t step) {
  const Region box = sample::whole(tensors[tensor].shape);
  const auto bytes = sample::content(tensors, tensor, box, step, element, 16);
  return static_cast<int64_t>(
      sample::bytes_of_file(path).find({reinterpret_cast<const char*>(bytes.data()), 16}));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "no error";
}

// Returns the message of all ranks, one of which has an error.
std::string open_error(const std::string& path, int ranks, bool through_rank_0) {
  std::string message;
  run_ranks(ranks, [&](Communicator& world) {
    std::string mine = "no error";
    try {
      open_checkpoint(world, path, through_rank_0);
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      mine = error.what();
    }
    const std::vector<std::string> all = gather_texts(world, mine);
    for (const std::string& text : all) {
      message += text;
    }
  });
  return message;
}

TEST(DamagedCheckpoint, IsNamedByTensorAndBlock) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::tensors();
  const std::string path = sample::write_one(folder / "", tensors, 4);
  // The element lies in the fourth block of optimizer/wide.v, whose blocks have 262144 elements.
  const int64_t at = find_element(path, tensors, 6, 3 * 262144 + 1000, 4);
  ASSERT_GT(at, 4096);
  flip_byte(path, at);
  const std::string expected =
      path + ": block 3 of optimizer/wide.v is corrupted: its checksum differs";
  for (int ranks = 1; ranks <= 4; ++ranks) {
    EXPECT_EQ(open_error(path, ranks, false), expected) << ranks;
    EXPECT_EQ(open_error(path, ranks, true), expected) << ranks;
  }
  // A reader of every third block sees the damage in one case of three.
  int seen = 0;
  const CheckpointFile file(path);
  for (int64_t first = 0; first < 3; ++first) {
    seen += error_of([&] { file.verify(first, 3); }) == expected ? 1 : 0;
  }
  EXPECT_EQ(seen, 1);
}

TEST(DamagedCheckpoint, IsPassedBy) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::tensors();
  for (const int64_t step : {5, 6, 7, 8}) {
    sample::write_one(folder / "", tensors, step);
  }
  const std::string newest = folder / checkpoint_name(8);
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  const std::string second = folder / checkpoint_name(7);
  flip_byte(second, find_element(second, tensors, 0, 17, 7));
  flip_byte(folder / checkpoint_name(6), 5000);  // HDF5's header
  for (const bool through_rank_0 : {false, true}) {
    testing::internal::CaptureStderr();
    run_ranks(3, [&](Communicator& world) {
      const auto file = open_newest(world, folder / "", "", through_rank_0);
      ASSERT_TRUE(file.has_value());
      EXPECT_EQ(file->state().step, 5);
    });
    const std::string logged = testing::internal::GetCapturedStderr();
    EXPECT_NE(logged.find("step-00000008.ckpt.h5: has "), std::string::npos) << logged;
    EXPECT_NE(logged.find("it is truncated"), std::string::npos) << logged;
    EXPECT_NE(logged.find("block 0 of parameters/embedding is corrupted"), std::string::npos)
        << logged;
    EXPECT_NE(logged.find("step-00000006.ckpt.h5: its header is corrupted"), std::string::npos)
        << logged;
  }
}

TEST(DamagedCheckpoint, IsSeenWhereverItWasCut) {
  const TemporaryFolder folder;
  const std::string whole =
      sample::bytes_of_file(sample::write_one(folder / "", sample::small_tensors(), 4));
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t length = random() % whole.size();
    const std::string path = folder.write("cut.ckpt.h5", whole.substr(0, length));
    EXPECT_THROW(CheckpointFile{path}, Error) << length;
  }
  EXPECT_THROW(CheckpointFile{folder.write("long.ckpt.h5", whole + "x")}, Error);
  EXPECT_NO_THROW(CheckpointFile{folder.write("whole.ckpt.h5", whole)});
}

// The state of a forged file is refused although its checksums are right.
TEST(DamagedCheckpoint, IsRefusedWhereItsStateCannotBe) {
  const TemporaryFolder folder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<const char*, std::function<void(TrainingState&)>> cases[] = {
      {"step -1", [](TrainingState& state) { state.step = -1; }},
      {"skipped -3", [](TrainingState& state) { state.skipped = -3; }},
      {"skipped 5", [](TrainingState& state) { state.skipped = 5; }},
      {"loss_scale 0", [](TrainingState& state) { state.loss_scale = 0.0; }},
      {"loss_scale -2", [](TrainingState& state) { state.loss_scale = -2.0; }},
      {"loss_scale nan", [=](TrainingState& state) { state.loss_scale = nan; }},
      {"loss_scale 1e+300", [](TrainingState& state) { state.loss_scale = 1e300; }},
      {"loss_scale 1e-300", [](TrainingState& state) { state.loss_scale = 1e-300; }},
      {"loss_scale_good_steps -1", [](TrainingState& state) { state.loss_scale_good_steps = -1; }},
      {"loss_scale_good_steps 5", [](TrainingState& state) { state.loss_scale_good_steps = 5; }}};
  for (const auto& [what, change] : cases) {
    TrainingState state = sample::state(4);
    change(state);
    const std::vector<StoredTensor> tensors = sample::small_tensors();
    sample::write({.folder = folder / ""}, tensors, sample::whole_boxes(tensors, 1), state);
    const std::string path = folder / checkpoint_name(state.step);
    const std::string error = error_of([&] { CheckpointFile{path}; });
    EXPECT_EQ(error.find(path + ": its state has " + what + ", expected "), 0) << error;
  }
}

// Readers find the newest file by the step in its first bytes.
TEST(DamagedCheckpoint, IsRefusedWhereItHasTwoSteps) {
  const TemporaryFolder folder;
  const std::string path = sample::write_one(folder / "", sample::small_tensors(), 4);
  const OpenFile reading(path, path, OpenFile::For::reading);
  write_frame(OpenFile(path, path, OpenFile::For::writing), reading, 9, "",
              read_frame(reading).tensors);
  EXPECT_EQ(error_of([&] { CheckpointFile{path}; }),
            path + ": its state has step 4, expected 9, which its first bytes have");
}

TEST(DamagedCheckpoint, IsRefusedWhenItIsNoFile) {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing";
  EXPECT_EQ(error_of([&] { CheckpointFile{missing}; }),
            missing + ": cannot open the file: no such file or directory");
  const std::string name = folder / "";
  EXPECT_EQ(error_of([&] { CheckpointFile{name}; }), name + ": is a folder, not a file");
  const std::string other = folder.write("other", std::string(10'000, 'x'));
  EXPECT_EQ(error_of([&] { CheckpointFile{other}; }), other + ": is not a checkpoint");
  EXPECT_EQ(open_error(other, 2, false), other + ": is not a checkpoint");
}

}  // namespace
}  // namespace hidup
