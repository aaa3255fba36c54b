// Programs whose ranks have parts of different sizes: the ranks that represent all, and their
// memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

#include "deck/cluster_deck.h"
#include "deck/model_deck.h"
#include "program/memory.h"
#include "program/verify.h"
#include "program/work.h"
#include "sample.h"

namespace hidup {
namespace {

// Returns a data parallel program with the batch in parts of that share along every axis.
Program program_with(const Mesh& mesh, ShareNumber share) {
  const Graph graph = build_model(sample_deck(), 31);
  Strategy strategy = named_strategy("dp", graph, mesh);
  for (OpStrategy& op : strategy.ops) {
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      op.rules[axis] = with_share(op.rules[axis], mesh[axis], share);
    }
  }
  return lower(graph, strategy, sample_options(2048));
}

Mesh axis_of(const Share& share) {
  return {{.name = "ranks", .size = static_cast<int64_t>(share.size()), .shares = {share}}};
}

using Ranks = std::vector<int64_t>;

TEST(DistinctRanks, AreTheEndsOfThoseAlike) {
  const Mesh mesh = axis_of({2, 2, 2, 1, 1, 0});
  EXPECT_EQ(distinct_ranks(program_with(mesh, {})), (Ranks{0, 5}));
  EXPECT_FALSE(has_unequal_parts(program_with(mesh, {})));
  EXPECT_EQ(distinct_ranks(program_with(mesh, ShareNumber::of(1))), (Ranks{0, 2, 3, 4, 5}));
  EXPECT_EQ(distinct_ranks(program_with({{"ranks", 6}}, ShareNumber::only(2))), (Ranks{0, 2, 5}));
  EXPECT_EQ(distinct_ranks(program_with({{"ranks", 6}}, ShareNumber::only(0))), (Ranks{0, 1, 5}));
  const Mesh two = {{.name = "node", .size = 2, .shares = {{3, 1}}},
                    {.name = "core", .size = 3, .shares = {{1, 1, 1}}}};
  EXPECT_EQ(distinct_ranks(program_with(two, ShareNumber::of(1))), (Ranks{0, 2, 3, 5}));
}

// The same strategy is proven whatever the order in which the axes number the ranks.
TEST(DistinctRanks, AreProvenInAnyOrderOfAxes) {
  for (const int inner : {0, 1}) {
    const Mesh mesh = {
        {.name = "node", .size = 2, .shares = {{3, 1}, {0, 1}}, .numbered = inner},
        {.name = "core", .size = 3, .shares = {{2, 0, 1}, {1, 0, 1}}, .numbered = 1 - inner}};
    for (const ShareNumber share : {ShareNumber::of(1), ShareNumber::of(2), ShareNumber::only(1)}) {
      const Program program = program_with(mesh, share);
      for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
        EXPECT_NO_THROW(verify(program, plan_memory(program, rank)))
            << to_string(share) << " of an axis numbered " << inner << ", rank " << rank;
      }
    }
  }
}

// Every other rank has the parts of a distinct one, except one element more or less in a dimension.
TEST(DistinctRanks, StandForAll) {
  const Program program = program_with(axis_of({3, 1, 1, 1, 3, 3}), ShareNumber::of(1));
  const std::vector<int64_t> distinct = distinct_ranks(program);
  EXPECT_EQ(distinct, (Ranks{0, 1, 3, 5}));
  const auto alike = [&](int64_t a, int64_t b) {
    for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
      if (program.value(id).holds.empty()) {
        const Shape of_a = program.local_shape(id, a);
        const Shape of_b = program.local_shape(id, b);
        for (size_t d = 0; d < of_a.size(); ++d) {
          if (std::abs(of_a[d] - of_b[d]) > 1) {
            return false;
          }
        }
      }
    }
    return true;
  };
  for (int64_t rank = 0; rank < ranks_of(program.mesh); ++rank) {
    EXPECT_TRUE(std::ranges::any_of(distinct, [&](int64_t of) { return alike(of, rank); })) << rank;
  }
}

// The first operation reads the parameter on one of the ranks that store it; the last one reads
// copies on all. The second microbatch begins before those copies exist.
TEST(TiedParameter, IsReadWhereItWasInEveryMicrobatch) {
  Deck deck = sample_deck();
  deck.model->family = "gpt";
  const Graph graph = build_model(deck, 31);
  const Mesh mesh = axis_of({1, 0, 1});
  Strategy strategy = named_strategy("dp", graph, mesh);
  strategy.microbatches = 2;
  ParameterStrategy& embedding = strategy.parameters[0];
  embedding.storage = embedding.optimizer_state = {Placement::replicate(ShareNumber::of(1))};
  strategy.ops[0].rules = {with_share(replicate_rule(graph, 0), mesh[0], ShareNumber::only(2))};
  const Program program = lower_forward(graph, strategy, sample_options(2048));
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank))) << rank;
  }
}

TEST(LargestPlan, IsOfTheRankThatNeedsMost) {
  for (const Share& share : {Share{1, 3, 1}, Share{0, 0, 1}, Share{2, 1, 0}}) {
    const Program program = program_with(axis_of(share), ShareNumber::of(1));
    int64_t most = 0;
    for (int64_t rank = 0; rank < 3; ++rank) {
      const MemoryPlan plan = plan_memory(program, rank);
      EXPECT_NO_THROW(verify(program, plan));
      most = std::max(most, plan.bytes);
    }
    EXPECT_EQ(largest_plan(program).bytes, most);
  }
}

TEST(TightestPlan, IsOfTheRankWithTheLeastRoom) {
  const Program program = program_with(axis_of({2, 4, 2}), ShareNumber::of(1));
  const std::vector<int64_t> bytes = bytes_of_ranks(program);
  ASSERT_EQ(bytes.size(), 3U);
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(bytes[static_cast<size_t>(rank)], plan_memory(program, rank).bytes) << rank;
  }
  EXPECT_GT(bytes[1], bytes[0]);
  EXPECT_EQ(alike_ranks(program), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(tightest_plan(program, {}).rank, 1) << "without limits: that needs most";
  EXPECT_EQ(tightest_plan(program, {bytes[0], 2 * bytes[1], 2 * bytes[2]}).rank, 0);
  EXPECT_EQ(tightest_plan(program, {2 * bytes[0], 2 * bytes[1], bytes[2] - 1}).rank, 2);
}

// Returns true if some rank refuses the program, by the memory that the ranks had planned before.
bool is_refused(const Program& program, const std::vector<MemoryPlan>& plans) {
  try {
    for (const MemoryPlan& plan : plans) {
      verify(program, plan);
    }
  } catch (const Error&) {
    return true;
  }
  return false;
}

// Each value in turn gets other parts than the instructions around it.
TEST(UnequalParts, OfOneValueAloneAreRefused) {
  Program program = program_with({{.name = "ranks", .size = 3, .shares = {{1, 2, 2}, {2, 1, 2}}}},
                                 ShareNumber::of(1));
  std::vector<MemoryPlan> plans;
  for (const int64_t rank : distinct_ranks(program)) {
    plans.push_back(plan_memory(program, rank));
  }
  ASSERT_FALSE(is_refused(program, plans));
  int mutations = 0;
  std::string accepted;
  for (Value& value : program.values) {
    for (Placement& placement : value.layout) {
      for (const ShareNumber share :
           {ShareNumber(), ShareNumber::of(2), ShareNumber::only(0), ShareNumber::only(2)}) {
        if (placement.is_shard()) {
          const ShareNumber before = std::exchange(placement.share, share);
          ++mutations;
          accepted += is_refused(program, plans) ? "" : value.name + to_string(share) + " ";
          placement.share = before;
        }
      }
    }
  }
  EXPECT_GT(mutations, 100);
  EXPECT_EQ(accepted, "");
}

// Found once for all ranks, on each of them.
TEST(WorkKinds, AreThoseOfEveryRank) {
  const Program program = program_with(axis_of({5, 2, 2, 1, 1, 0}), ShareNumber::of(1));
  const WorkKinds kinds(program);
  const auto has_parts_of = [&](int64_t a, int64_t b) {
    for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
      if (program.local_bytes(id, a) != program.local_bytes(id, b)) {
        return false;
      }
    }
    return true;
  };
  for (int64_t rank = 0; rank < 6; ++rank) {
    const AlikeInstructions alike = kinds.on(rank);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const int first = alike.first.at(static_cast<size_t>(alike.number[i]));
      const Instruction& a = program.instructions[i];
      const Instruction& b = program.instructions[static_cast<size_t>(first)];
      EXPECT_EQ(work_of(program, a, rank).flops, work_of(program, b, rank).flops) << a.name;
      EXPECT_EQ(work_of(program, a, rank).bytes, work_of(program, b, rank).bytes) << a.name;
      EXPECT_EQ(skips(program, a, rank), skips(program, b, rank)) << a.name;
    }
    for (int64_t other = 0; other < 6; ++other) {
      EXPECT_EQ(kinds.bytes_on(rank) == kinds.bytes_on(other), has_parts_of(rank, other))
          << rank << " and " << other;
    }
  }
}

TEST(WorkKinds, DifferByLayout) {
  const ShareNumber share = ShareNumber::of(1);
  Program program{.mesh = axis_of({3, 1})};
  for (const Placement& placement : {Placement::replicate(), Placement::shard(0),
                                     Placement::shard(1), Placement::shard(0, share)}) {
    const auto id = static_cast<ValueId>(program.values.size());
    program.values.push_back({.name = "x", .shape = {8, 8}, .layout = {placement}});
    program.instructions.push_back(
        {.opcode = Opcode::relu, .name = "i", .inputs = {id}, .outputs = {id}});
  }
  const WorkKinds kinds(program);
  EXPECT_EQ(kinds.on(0).number, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(kinds.bytes_on(0), (std::vector<int64_t>{256, 128, 128, 192}));
  EXPECT_EQ(kinds.bytes_on(1), (std::vector<int64_t>{256, 128, 128, 64}));
}

}  // namespace
}  // namespace hidup
