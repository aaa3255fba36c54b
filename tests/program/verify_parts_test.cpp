// Programs with changed shares must be refused for the right reason, by some rank's plan or by the
// list alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "core/check.h"
#include "program/print.h"
#include "program/verify.h"
#include "sample.h"

namespace hidup {
namespace {

// %1 has the ranks 0 and 1, %2 the ranks 1 to 3, %3 and %4 the ranks 2 and 3.
const Mesh kMesh = {{.name = "ranks",
                     .size = 4,
                     .shares = {{2, 1, 0, 0}, {0, 1, 3, 1}, {0, 0, 1, 2}, {0, 0, 1, 1}}}};

// Returns the program of a model whose operations change their ranks now and then, and whose
// parameters lie on other ranks.
Program shared_program() {
  const Graph graph = build_model(sample_deck(), 31);
  Strategy strategy = named_strategy("dp", graph, kMesh);
  strategy.microbatches = 2;
  const std::vector<ShareNumber> shares = {
      ShareNumber::of(1), ShareNumber::of(2), {}, ShareNumber::of(3), ShareNumber::only(1)};
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    Rule& rule = strategy.ops[op].rules[0];
    const ShareNumber share = shares[op / 4 % shares.size()];
    rule = op % 7 == 3 ? replicate_rule(graph, static_cast<OpId>(op)) : rule;
    rule = takes_share(rule, kMesh[0], share) ? with_share(rule, kMesh[0], share) : rule;
  }
  for (size_t p = 0; p < strategy.parameters.size(); ++p) {
    const ShareNumber share = shares[p % shares.size()];
    const Placement whole = with_share(Placement::replicate(), kMesh[0], share);
    strategy.parameters[p].storage = {p % 2 == 0 ? whole : Placement::shard(0, share)};
    strategy.parameters[p].optimizer_state = {p % 3 == 0 ? whole : Placement::shard(0, share)};
  }
  return lower(graph, strategy, sample_options(2048));
}

class SharedProgram : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t rank = 0; rank < 4; ++rank) {
      plans_.push_back(plan_memory(program_, rank));
      ASSERT_NO_THROW(verify(program_, plans_.back()));
    }
  }

  // Returns why some rank refuses the program; empty where none does.
  std::string refusal(const Program& program) const {
    for (const MemoryPlan& plan : plans_) {
      try {
        verify(program, plan);
      } catch (const Error& error) {
        return error.what();
      }
    }
    return "";
  }
  void expect_refused(const Program& program, const std::string& reason) {
    EXPECT_NE(refusal(program).find(reason), std::string::npos)
        << "expected: " << reason << "\nfound: " << refusal(program);
  }

  using Condition = std::function<bool(const Instruction&)>;
  static Condition is(Opcode opcode) {
    return [=](const Instruction& instruction) { return instruction.opcode == opcode; };
  }
  static bool in_group(const Instruction& instruction) { return instruction.group.size() > 1; }
  // Returns an instruction of the program, for a change.
  Instruction& find(Program& program, const Condition& condition) {
    const auto found = std::ranges::find_if(program.instructions, condition);
    if (found == program.instructions.end()) {
      throw std::logic_error("no such instruction");
    }
    return *found;
  }
  // Return the first value that some such instruction reads or writes.
  Value& input(Program& program, const Condition& condition) {
    return program.values[static_cast<size_t>(find(program, condition).inputs[0])];
  }
  Value& output(Program& program, const Condition& condition) {
    return program.values[static_cast<size_t>(find(program, condition).outputs[0])];
  }
  static Condition placed(bool (*condition)(const Placement&), const Program& program) {
    return [=, &program](const Instruction& instruction) {
      return collective_of(instruction.opcode).empty() && !is_reshard(instruction.opcode) &&
             condition(program.value(instruction.outputs[0]).layout[0]);
    };
  }
  static bool is_cut_by_1(const Placement& placement) {
    return placement.is_shard() && placement.share == ShareNumber::of(1);
  }

  const Program program_ = shared_program();
  std::vector<MemoryPlan> plans_;
};

TEST_F(SharedProgram, HasEveryKindOfReshard) {
  Program program = program_;
  for (const Opcode opcode :
       {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_to_all,
        Opcode::broadcast, Opcode::move, Opcode::slice, Opcode::place}) {
    EXPECT_NO_THROW(find(program, is(opcode))) << name_of(opcode);
  }
  EXPECT_NO_THROW(find(program, in_group));
}

TEST_F(SharedProgram, IsRefusedWithOtherGroups) {
  using Change = std::function<void(std::vector<int64_t>&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"a rank is left out", [](auto& group) { group.pop_back(); }},
      {"the first is left out", [](auto& group) { group.erase(group.begin()); }},
      {"in another order", [](auto& group) { std::ranges::reverse(group); }},
      {"all of the axis", [](auto& group) { group.clear(); }},
      {"a rank twice", [](auto& group) { group.push_back(group.back()); }},
      {"another rank", [](auto& group) { group.back() = (group.back() + 1) % 4; }},
      {"a rank that is not there", [](auto& group) { group.back() = 7; }}};
  int mutants = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    if (!in_group(program_.instructions[i])) {
      continue;
    }
    for (const auto& [what, change] : changes) {
      Program mutant = program_;
      change(mutant.instructions[i].group);
      SCOPED_TRACE(what);
      expect_refused(mutant, "is done by the ranks");
      ++mutants;
    }
  }
  EXPECT_GT(mutants, 100);
  Program mutant = program_;
  find(mutant, placed(is_cut_by_1, program_)).group = {0, 1};
  expect_refused(mutant, "has a group, and communicates nothing");
  mutant = program_;
  find(mutant, in_group).axis = 1;
  expect_refused(mutant, "works along no axis");
}

TEST_F(SharedProgram, IsRefusedWithWrongShares) {
  const std::vector<std::pair<const char*, Share>> shares = {{"negative", {3, -1, 0, 0}},
                                                             {"too few", {2, 1}},
                                                             {"too many", {2, 1, 0, 0, 1}},
                                                             {"nobody's", {0, 0, 0, 0}},
                                                             {"too large", {2000000000, 1, 0, 0}}};
  for (const auto& [what, share] : shares) {
    Program mutant = program_;
    mutant.mesh[0].shares[0] = share;
    SCOPED_TRACE(what);
    expect_refused(mutant, "is none of its 4 ranks");
  }
  // Other ranks have parts, so collectives have wrong groups.
  Program mutant = program_;
  mutant.mesh[0].shares[0] = {2, 0, 0, 1};
  EXPECT_NE(refusal(mutant), "");
}

TEST_F(SharedProgram, IsRefusedWithOtherPlacements) {
  const Condition cut = placed(is_cut_by_1, program_);
  const auto refused_as = [&](const Placement& placement, const std::string& reason) {
    Program mutant = program_;
    output(mutant, cut).layout[0] = placement;
    expect_refused(mutant, reason);
  };
  refused_as(Placement::shard(0, ShareNumber::of(9)), "which the axis ranks does not have");
  refused_as(Placement::shard(0, ShareNumber::only(4)), "which the axis ranks does not have");
  refused_as(Placement::shard(5, ShareNumber::of(1)), "dimensions");
  refused_as(Placement::replicate(ShareNumber::of(4)), "not by the first share of these ranks");
  refused_as(Placement::replicate(ShareNumber::only(3)), "where it has no part");
  refused_as(Placement::shard(0, ShareNumber::of(2)), "where it has no part");
  Program mutant = program_;
  output(mutant, cut).layout.clear();
  expect_refused(mutant, "has 0 placements on 1 axes");
}

// Each reshard starts from or leads to the ranks of another share.
TEST_F(SharedProgram, IsRefusedWithReshardsOfOtherRanks) {
  for (const Opcode opcode :
       {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter, Opcode::all_to_all,
        Opcode::broadcast, Opcode::move, Opcode::slice, Opcode::place}) {
    for (const bool from : {false, true}) {
      Program mutant = program_;
      Value& value = from ? input(mutant, is(opcode)) : output(mutant, is(opcode));
      const ShareNumber before = value.layout[0].share;
      const ShareNumber other =
          before == ShareNumber::of(3) ? ShareNumber::only(0) : ShareNumber::of(3);
      value.layout[0] = with_share(value.layout[0], mutant.mesh[0], other);
      EXPECT_NE(refusal(mutant), "")
          << name_of(opcode) << (from ? " from " : " to ") << to_string(value.layout);
    }
  }
  // A sum over some ranks is no sum over all.
  Program mutant = program_;
  const Condition of_sums = [&](const Instruction& instruction) {
    return instruction.opcode == Opcode::all_reduce && in_group(instruction) &&
           instruction.inputs != instruction.outputs;
  };
  mutant.instructions.erase(std::ranges::find_if(mutant.instructions, is(Opcode::place)));
  EXPECT_NE(refusal(mutant), "");
  mutant = program_;
  if (std::ranges::any_of(mutant.instructions, of_sums)) {
    output(mutant, of_sums).layout[0] = Placement::replicate();
    expect_refused(mutant, "is done by the ranks");
  }
}

// Ranks that skip an instruction still wait and are waited for: without any single wait the order
// is lost, even where it leads through a skipped instruction.
TEST_F(SharedProgram, IsRefusedWithoutAnyOneWait) {
  int through_skipped = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.waits.empty()) {
      continue;
    }
    const Instruction& waited = program_.instructions[static_cast<size_t>(instruction.waits[0])];
    for (int64_t rank = 0; rank < 4; ++rank) {
      through_skipped +=
          skips(program_, waited, rank) && !skips(program_, instruction, rank) ? 1 : 0;
    }
    Program mutant = program_;
    mutant.instructions[i].waits.clear();
    expect_refused(mutant, "nothing orders");
  }
  EXPECT_GT(through_skipped, 20);
}

// Two values overlap on one rank, though others have room for both.
TEST_F(SharedProgram, IsRefusedWithOverlapsOnOneRank) {
  int mutants = 0;
  for (const MemoryPlan& plan : plans_) {
    for (size_t v = 1; v < program_.values.size(); ++v) {
      if (program_.values[v].role == Value::Role::parameter && plan.sizes[v] > 0 &&
          plan.sizes[v - 1] > 0) {
        MemoryPlan moved = plan;
        moved.offsets[v] = moved.offsets[v - 1];
        EXPECT_THROW(verify(program_, moved), Error);
        ++mutants;
      }
    }
  }
  EXPECT_GT(mutants, 10);
}

TEST_F(SharedProgram, RanksMustAgreeOnGroups) {
  Program other = program_;
  find(other, in_group).group = {0, 3};
  const std::vector<std::string> texts = {print_collectives(program_), print_collectives(other)};
  EXPECT_THROW(verify_ranks_agree(texts), Error);
}

}  // namespace
}  // namespace hidup
