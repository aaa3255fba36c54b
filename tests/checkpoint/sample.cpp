#include "sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "checkpoint/runs.h"
#include "fake_ranks/fake_ranks.h"

namespace hidup::sample {

Region box_of(const Shape& shape, const Shape& start, const Shape& extent) {
  Region box;
  box.dims = static_cast<int>(shape.size());
  std::ranges::copy(shape, box.global);
  std::ranges::copy(start, box.start);
  std::ranges::copy(extent, box.extent);
  return box;
}

Region whole(const Shape& shape) {
  return box_of(shape, Shape(shape.size(), 0), shape);
}

std::vector<StoredTensor> tensors() {
  return {{"parameters/embedding", DType::f32, {700, 1031}},  // 2.8 blocks
          {"parameters/a.weight", DType::bf16, {31, 7, 5}},
          {"parameters/b.weight", DType::f16, {3, 5}},
          {"parameters/scalar", DType::f32, {}},
          {"parameters/deep/er/one", DType::i32, {17}},
          {"optimizer/embedding.m", DType::bf16, {700, 1031}},
          {"optimizer/wide.v", DType::f32, {2, 3, 220000}},  // 5 blocks: replicas divide it
          {"optimizer/block.master", DType::f32, {512, 512}}};
}

std::vector<StoredTensor> small_tensors() {
  return {{"parameters/a", DType::f32, {7, 9}}, {"optimizer/a.m", DType::bf16, {7, 9}}};
}

namespace {

// Cuts `shape` into `parts` boxes along a dimension at random places.
std::vector<Region> cut(const Shape& shape, size_t parts, std::mt19937& random) {
  const size_t d = random() % shape.size();
  std::vector<int64_t> cuts = {0, shape[d]};
  for (size_t part = 1; part < parts; ++part) {
    cuts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(shape[d] + 1)));
  }
  std::ranges::sort(cuts);
  std::vector<Region> boxes;
  for (size_t part = 0; part < parts; ++part) {
    boxes.push_back(whole(shape));
    boxes.back().start[d] = cuts[part];
    boxes.back().extent[d] = cuts[part + 1] - cuts[part];
  }
  return boxes;
}

}  // namespace

std::vector<Boxes> random_boxes(const std::vector<StoredTensor>& tensors, int ranks,
                                std::mt19937& random) {
  const auto count = static_cast<size_t>(ranks);
  std::vector<Boxes> boxes(count);
  for (const StoredTensor& tensor : tensors) {
    const size_t parts = tensor.shape.empty() ? 1 : count % 2 == 0 ? size_t{1} << random() % 2 : 1;
    const bool all = tensor.shape.empty() || random() % 3 == 0;
    const std::vector<Region> of_part =
        all ? std::vector<Region>{whole(tensor.shape)} : cut(tensor.shape, count / parts, random);
    for (size_t rank = 0; rank < count; ++rank) {
      boxes[rank].push_back(of_part[rank % of_part.size()]);
    }
  }
  return boxes;
}

std::vector<Boxes> whole_boxes(const std::vector<StoredTensor>& tensors, int ranks) {
  Boxes boxes;
  for (const StoredTensor& tensor : tensors) {
    boxes.push_back(whole(tensor.shape));
  }
  return std::vector<Boxes>(static_cast<size_t>(ranks), boxes);
}

TrainingState state(int64_t step) {
  TrainingState state;
  state.step = step;
  state.skipped = step / 2;
  state.loss_scale = 1024.5;
  state.loss_scale_good_steps = step - step / 2;
  state.seed = 0xfedcba9876543210ULL;
  state.graph_hash = "hash";
  state.program_version = "1.2.3";
  state.started_at = "2026-01-31T23:59:59Z";
  state.strategy = "a strategy\nof two lines";
  state.model_deck = "model: 1";
  state.cluster_deck = "cluster: 1";
  state.resolved = std::string(100'000, 'x');  // more than HDF5 holds in an object's header
  state.timing_file = "run.h5";
  state.vocabulary = {"the", "", "größer"};
  return state;
}

std::vector<std::byte> content(const std::vector<StoredTensor>& tensors, size_t tensor,
                               const Region& box, int64_t step, int64_t first, int64_t count) {
  const auto size = static_cast<size_t>(size_of(tensors[tensor].dtype));
  const uint64_t base =
      (tensor + 1) * 0xbf58476d1ce4e5b9ULL + static_cast<uint64_t>(step) * 0x94d049bb133111ebULL;
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size);
  std::byte* to = bytes.data();
  for_each_run(box, first, count, [&](int64_t global, int64_t, int64_t length) {
    for (int64_t k = global; k < global + length; ++k) {
      const uint64_t value = (base + static_cast<uint64_t>(k) * 0x9e3779b97f4a7c15ULL) >> 32;
      std::memcpy(to, &value, size);
      to += size;
    }
  });
  return bytes;
}

std::vector<std::byte> content(const std::vector<StoredTensor>& tensors, size_t tensor,
                               const Region& box, int64_t step) {
  return content(tensors, tensor, box, step, 0, box.elements());
}

CheckpointWriter::CopyOut copy_out(const std::vector<StoredTensor>& tensors, const Boxes& boxes,
                                   int64_t step) {
  return [=](size_t tensor, int64_t first, int64_t count, std::byte* to) {
    std::ranges::copy(content(tensors, tensor, boxes[tensor], step, first, count), to);
  };
}

void write(const WriterOptions& options, const std::vector<StoredTensor>& tensors,
           const std::vector<Boxes>& boxes, const TrainingState& state) {
  run_ranks(static_cast<int>(boxes.size()), [&](Communicator& world) {
    const Boxes& mine = boxes[static_cast<size_t>(world.rank())];
    CheckpointWriter writer(world, options, tensors, mine);
    writer.save(state, copy_out(tensors, mine, state.step));
    const CheckpointWriter::Result result = writer.wait();
    EXPECT_TRUE(result.succeeded) << result.error;
  });
}

void write(const WriterOptions& options, const std::vector<StoredTensor>& tensors,
           const std::vector<Boxes>& boxes, int64_t step) {
  write(options, tensors, boxes, state(step));
}

std::string write_one(const std::string& folder, const std::vector<StoredTensor>& tensors,
                      int64_t step) {
  write({.folder = folder}, tensors, whole_boxes(tensors, 1), step);
  return folder + "/" + checkpoint_name(step);
}

void expect_content(const CheckpointFile& file, const std::vector<StoredTensor>& tensors,
                    int64_t step) {
  EXPECT_EQ(file.state().step, step);
  std::map<std::string, size_t> expected;
  for (size_t i = 0; i < tensors.size(); ++i) {
    expected[tensors[i].name] = i;
  }
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& stored = file.tensors()[i];
    ASSERT_TRUE(expected.contains(stored.name)) << stored.name;
    const size_t own = expected[stored.name];
    ASSERT_EQ(stored.dtype, tensors[own].dtype) << stored.name;
    ASSERT_EQ(stored.shape, tensors[own].shape) << stored.name;
    const Region box = whole(stored.shape);
    std::vector<std::byte> bytes(static_cast<size_t>(box.elements() * size_of(stored.dtype)));
    file.read(i, box, bytes.data());
    EXPECT_TRUE(bytes == content(tensors, own, box, step)) << stored.name;
  }
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace hidup::sample
