// Checkpoints that some ranks write and others read.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/crc32c.h"
#include "core/half.h"
#include "core/with_type.h"
#include "fake_ranks/fake_ranks.h"
#include "io/hdf5.h"
#include "sample.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

// Checks that every rank reads its boxes of some tensors from the newest file.
void expect_boxes(const std::string& folder, const std::vector<StoredTensor>& tensors,
                  const std::vector<sample::Boxes>& boxes, int64_t step, bool through_rank_0) {
  run_ranks(static_cast<int>(boxes.size()), [&](Communicator& world) {
    const sample::Boxes& mine = boxes[static_cast<size_t>(world.rank())];
    const auto file = open_newest(world, folder, "", through_rank_0);
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(file->state().step, step);
    std::vector<std::vector<std::byte>> read(tensors.size());
    std::vector<BoxRequest> wanted;
    const auto& stored = file->tensors();
    for (size_t i = static_cast<size_t>(world.rank()) % 2; i < tensors.size(); i += 1 + i % 3) {
      const auto found = std::ranges::find(stored, tensors[i].name, &StoredTensor::name);
      ASSERT_NE(found, stored.end());
      const auto bytes = static_cast<size_t>(mine[i].elements() * size_of(tensors[i].dtype));
      read[i].resize(bytes);
      wanted.push_back({static_cast<size_t>(found - stored.begin()), mine[i], read[i].data()});
    }
    read_boxes(world, *file, wanted);
    for (const BoxRequest& request : wanted) {
      const auto named =
          std::ranges::find(tensors, stored[request.tensor].name, &StoredTensor::name);
      const auto i = static_cast<size_t>(named - tensors.begin());
      EXPECT_TRUE(read[i] == sample::content(tensors, i, mine[i], step)) << tensors[i].name;
    }
  });
}

TEST(Checkpoint, IsTheSameFromAnyRanksToAnyRanks) {
  const std::vector<StoredTensor> tensors = sample::tensors();
  const TemporaryFolder one;
  const std::string expected = sample::bytes_of_file(sample::write_one(one / "", tensors, 12));
  ASSERT_GT(expected.size(), 10U << 20);
  std::mt19937 random(3);
  for (int round = 0; round < 8; ++round) {
    const TemporaryFolder folder;
    const int ranks = 1 + round % 4;
    const bool through_rank_0 = round / 4 == 1;
    sample::write({.folder = folder / "new/one", .through_rank_0 = through_rank_0}, tensors,
                  sample::random_boxes(tensors, ranks, random), 12);
    const std::string path = folder / "new/one/step-00000012.ckpt.h5";
    EXPECT_TRUE(sample::bytes_of_file(path) == expected) << ranks << through_rank_0;
    const auto readers = sample::random_boxes(tensors, 1 + (round * 7 + 2) % 4, random);
    expect_boxes(folder / "new/one", tensors, readers, 12, round % 2 == 1);
  }
}

TEST(Checkpoint, KeepsTheState) {
  const TemporaryFolder folder;
  const TrainingState written = sample::state(7);
  const CheckpointFile file(sample::write_one(folder / "", sample::small_tensors(), 7));
  const TrainingState& read = file.state();
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.skipped, written.skipped);
  EXPECT_EQ(read.loss_scale, written.loss_scale);
  EXPECT_EQ(read.loss_scale_good_steps, written.loss_scale_good_steps);
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.graph_hash, written.graph_hash);
  EXPECT_EQ(read.program_version, written.program_version);
  EXPECT_EQ(read.started_at, written.started_at);
  EXPECT_EQ(read.strategy, written.strategy);
  EXPECT_EQ(read.model_deck, written.model_deck);
  EXPECT_EQ(read.cluster_deck, written.cluster_deck);
  EXPECT_EQ(read.resolved, written.resolved);
  EXPECT_EQ(read.graph, "");
  EXPECT_EQ(read.timing_file, written.timing_file);
  EXPECT_EQ(read.vocabulary, written.vocabulary);
}

// Other readers know the elements by HDF5's description.
TEST(Checkpoint, IsReadByHdf5) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = {{"parameters/bf16", DType::bf16, {300}},
                                             {"parameters/f16", DType::f16, {300}},
                                             {"parameters/f32", DType::f32, {300}}};
  const std::string path = sample::write_one(folder / "", tensors, 1);
  const auto lock = hdf5::lock_library();
  const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const hdf5::Handle data(H5Dopen2(file.get(), tensors[i].name.c_str(), H5P_DEFAULT));
    std::vector<float> read(300);
    ASSERT_GE(H5Dread(data.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), 0);
    const auto bytes = sample::content(tensors, i, sample::whole({300}), 1);
    with_floating_type(tensors[i].dtype, [&](auto zero) {
      for (size_t k = 0; k < read.size(); ++k) {
        auto value = zero;
        std::memcpy(&value, bytes.data() + k * sizeof value, sizeof value);
        const auto expected = static_cast<float>(value);
        EXPECT_TRUE(read[k] == expected || (std::isnan(read[k]) && std::isnan(expected)))
            << tensors[i].name << " " << k << ": " << read[k] << " " << expected;
      }
    });
  }
}

TEST(Checkpoint, HasTheChecksumsOfWholeBlocks) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::tensors();
  std::mt19937 random(5);
  sample::write({.folder = folder / ""}, tensors, sample::random_boxes(tensors, 4, random), 3);
  const auto lock = hdf5::lock_library();
  const hdf5::Handle file(
      H5Fopen((folder / checkpoint_name(3)).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = sample::content(tensors, i, sample::whole(tensors[i].shape), 3);
    std::vector<uint32_t> expected;
    for (size_t at = 0; at < bytes.size(); at += 1 << 20) {
      expected.push_back(
          crc32c(std::span(bytes).subspan(at, std::min<size_t>(bytes.size() - at, 1 << 20))));
    }
    const std::string name = "checksums/" + tensors[i].name;
    const hdf5::Handle data(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
    const hdf5::Handle space(H5Dget_space(data.get()));
    ASSERT_EQ(H5Sget_simple_extent_npoints(space.get()), static_cast<hssize_t>(expected.size()));
    std::vector<uint32_t> read(expected.size());
    H5Dread(data.get(), H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data());
    EXPECT_EQ(read, expected) << name;
  }
}

TEST(Checkpoint, IsCopiedBeforeTrainingGoesOn) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::tensors();
  std::mt19937 random(6);
  const auto boxes = sample::random_boxes(tensors, 3, random);
  run_ranks(3, [&](Communicator& world) {
    const sample::Boxes& mine = boxes[static_cast<size_t>(world.rank())];
    CheckpointWriter writer(world, {.folder = folder / ""}, tensors, mine);
    EXPECT_EQ(writer.last_seconds(), 0);
    for (int64_t step = 1; step <= 3; ++step) {
      bool is_saving = true;
      const auto copy = sample::copy_out(tensors, mine, step);
      writer.save(sample::state(step), [&](size_t i, int64_t first, int64_t count, std::byte* to) {
        EXPECT_TRUE(is_saving);
        copy(i, first, count, to);
      });
      is_saving = false;
      world.barrier();  // the training's collectives go on meanwhile
    }
    EXPECT_TRUE(writer.wait().succeeded);
    EXPECT_GT(writer.last_seconds(), 0);
    EXPECT_EQ(all_gather_value(world, writer.last_seconds()),
              std::vector<double>(3, writer.last_seconds()));
  });
  for (int64_t step = 1; step <= 3; ++step) {
    const CheckpointFile file(folder / checkpoint_name(step));
    file.verify(0, 1);
    sample::expect_content(file, tensors, step);
  }
}

TEST(Checkpoint, KeepsTheLastOnes) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::small_tensors();
  const auto write = [&](int64_t step, int64_t keep) {
    sample::write({.folder = folder / "", .keep = keep}, tensors, sample::whole_boxes(tensors, 2),
                  step);
  };
  for (const int64_t step : {9, 10, 11, 500}) {
    write(step, 0);
  }
  folder.write("step-00000003.ckpt.h5", "not complete");
  folder.write("step-00000099.ckpt.h5.part-17-0", "of a killed run");
  folder.write("notes.txt", "of somebody else");
  write(20, 2);
  // The file of step 500 belongs to a run that went further, so it stays.
  const std::vector<std::string> expected = {"notes.txt", "step-00000003.ckpt.h5",
                                             "step-00000011.ckpt.h5", "step-00000020.ckpt.h5",
                                             "step-00000500.ckpt.h5"};
  EXPECT_EQ(folder.names(), expected);
  write(20, 1);  // the same step again
  EXPECT_EQ(folder.names().size(), 4U);
}

TEST(Checkpoint, OfTheHighestStepIsTheNewest) {
  const TemporaryFolder folder;
  const std::vector<StoredTensor> tensors = sample::small_tensors();
  const auto self = make_self_communicator();
  EXPECT_FALSE(open_newest(*self, folder / "missing").has_value());
  EXPECT_FALSE(open_newest(*self, folder / "").has_value());
  for (const int64_t step : {8, 123, 20}) {
    sample::write_one(folder / "", tensors, step);
  }
  std::filesystem::rename(folder / checkpoint_name(123), folder / "a.ckpt.h5");
  const auto file = open_newest(*self, folder / "");
  ASSERT_TRUE(file.has_value());
  sample::expect_content(*file, tensors, 123);
}

}  // namespace
}  // namespace hidup
