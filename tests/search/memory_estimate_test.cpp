// The search's estimate of a strategy's memory, part by part.
#include <gtest/gtest.h>

#include <algorithm>

#include "search/problem/build_problem.h"
#include "search/problem/transient_bytes.h"
#include "setting.h"

namespace hidup {
namespace {

const Mesh kTwoRanks = {{"ranks", 2}};
const Layout kWhole = {Placement::replicate()};
const Layout kRows = {Placement::shard(0)};

class MemoryEstimate : public testing::Test {
 protected:
  Graph graph_ = two_products(10, 400);
  std::vector<int> reads_ = backward_reads(graph_);
  CostModel model_ = simple_costs();

  TensorId id(const char* name) const { return graph_.find(name); }
  double f32(int64_t count) const { return 4.0 * static_cast<double>(count); }
  double parameter_bytes() const { return f32(graph_.parameter_count()); }
  double kept_bytes() const {
    double bytes = 0.0;
    for (const char* name : {"x", "y", "z", "logits"}) {
      bytes += reads_[static_cast<size_t>(id(name))] > 0
                   ? f32(elements(graph_.tensor(id(name)).shape))
                   : 0.0;
    }
    return bytes;
  }
  TransientMemory memory(int64_t ranks, int microbatches = 1, bool all_sums = false,
                         int64_t bucket_bytes = 1) const {
    return {graph_, reads_, ranks, bucket_bytes, microbatches, all_sums};
  }
  TransientBytes weight(OpId op, const Layout& state, Choice& choice) const {
    const OpStrategy batch{.rules = {find_rule(graph_, op, "batch")}};
    const RuleCosts costs(graph_, kTwoRanks, model_, 1, 1);
    const TensorId parameter = graph_.op(op).inputs[1];
    return costs.add_parameter(
        batch, 1, {.tensor = parameter, .storage = kWhole, .optimizer_state = state}, choice);
  }
};

// Sums of gradients take the memory of freed activations, except where a further group needs both.
TEST_F(MemoryEstimate, SumsTakeTheRoomOfActivations) {
  const std::vector<TransientBytes> all = {
      {.sums = parameter_bytes(), .undivided = parameter_bytes()}};
  const std::vector<TransientBytes> halves = {
      {.sums = parameter_bytes() / 2, .undivided = parameter_bytes()}};
  const int64_t ranks = 16;
  const double room = kept_bytes() / static_cast<double>(ranks);
  ASSERT_LT(room, parameter_bytes() / 2);
  ASSERT_GT(room, 0.0);
  EXPECT_NEAR(memory(ranks).bytes(all, {Residency::step}), parameter_bytes() - room, 1.0);
  EXPECT_NEAR(memory(ranks).bytes(halves, {Residency::step}), parameter_bytes() / 2 - room, 1.0);
  EXPECT_EQ(memory(1).bytes(all, {Residency::step}), 0.0);
  EXPECT_EQ(memory(1, 1, true).bytes(all, {Residency::step}), parameter_bytes());
  // Gathered copies are freed, too.
  const TransientBytes gathered{.gathered = 100.0, .sums = parameter_bytes(), .undivided = 0.0};
  EXPECT_NEAR(memory(ranks).bytes({gathered}, {Residency::step}), parameter_bytes(), 1e-6);
}

// Every parameter has a bucket: parameters with the residency of a pass take two buckets at a time,
// with their sums; alternating microbatches take a third one's.
TEST_F(MemoryEstimate, WhatIsKeptForAPassTakesTwoBuckets) {
  const double table = f32(400 * 64), up = f32(64 * 256), down = f32(256 * 100);
  const std::vector<TransientBytes> all = {{.gathered = table + up + down}};
  EXPECT_NEAR(memory(1).bytes(all, {Residency::pass}), 2 * (up + down), 1.0);
  EXPECT_NEAR(memory(1, 2).bytes(all, {Residency::pass}), 2 * (table + up) + down, 1.0);
  EXPECT_NEAR(memory(1, 2, false, 1 << 20).bytes(all, {Residency::pass}), 2 * (table + up + down),
              1.0);
}

// A rank's 5 sequences make microbatches of 3 and 2.
TEST_F(MemoryEstimate, MicrobatchesAreNotEqual) {
  const RuleCosts costs(graph_, kTwoRanks, model_, 2, 1);
  EXPECT_EQ(costs.bytes(id("y"), kRows), f32(5 * 32 * 256));
  EXPECT_EQ(costs.bytes(id("y"), kWhole), f32(10 * 32 * 256));
}

// The total takes the place of the sums, unless the rank has only a part of them.
TEST_F(MemoryEstimate, SumsBecomeTotalsInPlace) {
  const OpId op = graph_.tensor(id("y")).producer;
  const double up = f32(64 * 256);
  Choice whole, parts;
  EXPECT_EQ(weight(op, kWhole, whole).sums, 0.0);
  EXPECT_EQ(whole.persistent_bytes, (1 + 2 + 1) * up);
  const TransientBytes passing = weight(op, kRows, parts);
  EXPECT_EQ(passing.sums, up);
  EXPECT_EQ(passing.undivided, up);
  EXPECT_EQ(parts.persistent_bytes, up + (2 + 1) * up / 2);
}

// Only the product reads x again: where it needs the whole x, that copy stays, and not the part.
TEST_F(MemoryEstimate, ACopyForTheOnlyReaderIsKeptInPlaceOfWhatWasWritten) {
  const BuiltProblem built = build_problem(graph_, kTwoRanks, model_, {});
  const auto by_rule = [&](size_t op, std::string_view rule) -> const Choice& {
    const auto kind = static_cast<size_t>(built.problem.ops[op].kind);
    const Rule wanted = find_rule(graph_, static_cast<OpId>(op), rule);
    const auto found = std::ranges::find_if(
        built.meanings[kind],
        [&](const ChoiceMeaning& meaning) { return meaning.op_strategy.rules[0] == wanted; });
    return built.problem.kinds[kind]
        .choices[static_cast<size_t>(found - built.meanings[kind].begin())];
  };
  const int written = by_rule(0, "batch").output;
  const int read = by_rule(1, "column").inputs[0].required;
  const double x = f32(10 * 32 * 64);
  EXPECT_EQ(by_rule(0, "batch").saved_bytes, x / 2);
  EXPECT_EQ(built.problem.tensor_of(0).forward.between(written, read).bytes, x / 2);
}

}  // namespace
}  // namespace hidup
