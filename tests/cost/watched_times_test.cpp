// The times of ranks that tell slow ranks and links apart.
#include "cost/watched_times.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check.h"

namespace hidup {
namespace {

using Numbers = std::vector<double>;

constexpr auto kProductClass = static_cast<size_t>(OperationClass::products);
constexpr auto kMemoryClass = static_cast<size_t>(OperationClass::memory);

// On 2 x 2 ranks: a relu, an operation on tokens of experts, two sums inside and one across.
struct Sample {
  Sample() {
    program.mesh = {{"node", 2}, {"gpu", 2}};
    const ValueId x = add_value("x", DType::f32, {1024});
    const ValueId counts = add_value("counts", DType::i32, {4});
    add(Opcode::relu, StreamKind::compute, -1, {x});
    add(Opcode::expert_bias, StreamKind::compute, -1, {x, x, counts});
    add(Opcode::all_reduce, StreamKind::comm, 1, {x});
    add(Opcode::all_reduce, StreamKind::comm, 1, {x});
    add(Opcode::all_reduce, StreamKind::comm, 0, {x});
  }

  ValueId add_value(const char* name, DType dtype, Shape shape) {
    program.values.push_back({.name = name,
                              .dtype = dtype,
                              .shape = std::move(shape),
                              .layout = Layout(program.mesh.size(), Placement::replicate())});
    return static_cast<ValueId>(program.values.size() - 1);
  }

  void add(Opcode opcode, StreamKind stream, int axis, std::vector<ValueId> inputs) {
    program.instructions.push_back({.opcode = opcode,
                                    .name = "i",
                                    .stream = stream,
                                    .axis = axis,
                                    .inputs = std::move(inputs),
                                    .outputs = {0}});
  }

  Program program;
};

TEST(MessageKinds, ThoseOfPackedRowsAreNone) {
  Sample sample;
  sample.program.values[0].packed = PackedRows{};
  const MessageKinds kinds = message_kinds(sample.program);
  EXPECT_TRUE(kinds.first.empty());
  EXPECT_EQ(kinds.number, std::vector<int>(5, MessageKinds::kNone));
}

TEST(MessageKinds, AreMessagesOfTheSameSizesAlongTheSameAxis) {
  const Sample sample;
  const MessageKinds kinds = message_kinds(sample.program);
  EXPECT_EQ(kinds.number, (std::vector<int>{-1, -1, 0, 0, 1}));
  EXPECT_EQ(kinds.first, (std::vector<int>{2, 4}));
  EXPECT_EQ(kinds.count, (std::vector<int>{2, 1}));
}

// The middle step counts for computation, the fastest message for messages. The time of an
// operation on tokens of experts does not count.
TEST(WatchedTimes, AreThoseOfAnUndisturbedStep) {
  const Sample sample;
  WatchedTimes times(sample.program, 0);
  times.add(std::vector<Interval>{{0, 2}, {2, 9}, {9, 12}, {12, 16}, {16, 26}});
  times.add(std::vector<Interval>{{30, 33}, {33, 99}, {99, 101}, {101, 111}, {111, 118}});
  times.add(std::vector<Interval>{{120, 160}, {160, 161}, {161, 171}, {171, 181}, {181, 191}});
  EXPECT_EQ(times.steps(), 3);
  const RankDigest digest = times.take();
  EXPECT_EQ(digest.span_s, 71.0);
  EXPECT_EQ(digest.classes_s[kProductClass], 0.0);
  EXPECT_EQ(digest.classes_s[kMemoryClass], 3.0);
  EXPECT_EQ(digest.least_s, (Numbers{2.0, 7.0}));
  EXPECT_EQ(times.steps(), 0);
  EXPECT_TRUE(std::isnan(times.take().least_s[0]));
  EXPECT_THROW(times.add(std::vector<Interval>(3)), Error);
}

TEST(WatchedTimes, ExpectWhatTheWorkIs) {
  const Sample sample;
  const WatchedTimes times(sample.program, 0);
  EXPECT_EQ(times.expected(nullptr), (Numbers{0.0, 0.0, 16.0 * 2.0 * 4096.0}));
  EXPECT_EQ(times.instructions(), WatchedTimes(sample.program, 3).instructions());
}

// Rank 1 comes last to every message, so its messages have the true lengths.
TEST(WatchedParts, MessagesCountFromTheLastArrival) {
  const Sample sample;
  const std::vector<WatchedRank> ranks(4, {.expected = {0.0, 0.0, 1.0}});
  const WatchedParts parts(sample.program, ranks);
  ASSERT_EQ(parts.parts().size(), 8U);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(parts.parts()[rank].computes());
    EXPECT_EQ(parts.parts()[rank].ranks, std::vector<int64_t>{static_cast<int64_t>(rank)});
    EXPECT_EQ(parts.parts()[rank].like, 0);
  }
  EXPECT_EQ(parts.parts()[4].axes, "gpu");
  EXPECT_EQ(parts.parts()[4].ranks, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(parts.parts()[5].ranks, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parts.parts()[4].like, parts.parts()[5].like);
  EXPECT_EQ(parts.parts()[6].axes, "node");
  EXPECT_EQ(parts.parts()[6].ranks, (std::vector<int64_t>{0, 2}));
  EXPECT_NE(parts.parts()[4].like, parts.parts()[6].like);

  std::vector<RankDigest> digests(4, {.span_s = 50.0, .classes_s = {0.0, 0.0, 4.0}});
  digests[0].least_s = {9.0, 8.0};
  digests[1].least_s = {3.0, 2.0};
  digests[2].least_s = {5.0, 5.0};
  digests[3].least_s = {6.0, 6.0};
  const WatchedBlock block = parts.block(11, 20, digests);
  EXPECT_EQ(block.first, 11);
  EXPECT_EQ(block.last, 20);
  EXPECT_EQ(block.step_s, 50.0);
  EXPECT_EQ(block.times[3], (Numbers{0.0, 0.0, 4.0}));
  EXPECT_EQ(block.times[4], Numbers{6.0}) << "two of 3 s";
  EXPECT_EQ(block.times[5], Numbers{10.0});
  EXPECT_EQ(block.times[6], Numbers{5.0});
  EXPECT_EQ(block.times[7], Numbers{2.0});
}

TEST(WatchedParts, OnlyRanksOfAClassWithTheSameInstructionsAreAlike) {
  const Sample sample;
  std::vector<WatchedRank> ranks(4, {.expected = {0.0, 0.0, 1.0}});
  ranks[1].device = 1;
  ranks[2].instructions = 5;
  const WatchedParts parts(sample.program, ranks);
  EXPECT_EQ(parts.parts()[0].like, parts.parts()[3].like);
  EXPECT_NE(parts.parts()[0].like, parts.parts()[1].like);
  EXPECT_NE(parts.parts()[0].like, parts.parts()[2].like);
}

}  // namespace
}  // namespace hidup
