// The check of memory, against a check of all pairs.
#include "program/verify_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "core/check.h"
#include "sample.h"

namespace hidup {
namespace {

// Does verify_memory()'s check by looking at all pairs of values and accesses, not at neighbours.
bool right_by_pairs(const Program& program, const MemoryPlan& plan) {
  const RankSteps steps(program, plan.rank);
  const Accesses accesses(program, steps);
  const HappensBefore before(program, steps);
  const auto overlap = [&](size_t u, size_t v) {
    return plan.sizes[u] > 0 && plan.sizes[v] > 0 &&
           plan.offsets[u] < plan.offsets[v] + plan.sizes[v] &&
           plan.offsets[v] < plan.offsets[u] + plan.sizes[u];
  };
  const auto in_order = [&](const Access& a, const Access& b) {
    return a.instruction == b.instruction || (!a.writes && !b.writes) ||
           before(std::min(a.instruction, b.instruction), std::max(a.instruction, b.instruction));
  };
  const auto right = [&](size_t u, size_t v) {
    if (u != v && (program.values[u].persistent() || program.values[v].persistent())) {
      return false;
    }
    if (u != v && !accesses[u].empty() && !accesses[v].empty() &&
        accesses[u].back().instruction >= accesses[v].front().instruction &&
        accesses[v].back().instruction >= accesses[u].front().instruction) {
      return false;
    }
    return std::ranges::all_of(accesses[u], [&](const Access& a) {
      return std::ranges::all_of(accesses[v], [&](const Access& b) { return in_order(a, b); });
    });
  };
  const auto is_here = [&](size_t v) {
    return !program.values[v].holds.empty() || program.lies_on(static_cast<ValueId>(v), plan.rank);
  };
  for (size_t u = 0; u < program.values.size(); ++u) {
    for (size_t v = u; v < program.values.size(); ++v) {
      if (((u == v && is_here(u)) || overlap(u, v)) && !right(u, v)) {
        return false;
      }
    }
  }
  return true;
}

bool reads_before_write(const Program& program, const MemoryPlan& plan) {
  const Accesses accesses(program, RankSteps(program, plan.rank));
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (!program.values[v].persistent() && !accesses[v].empty() && accesses[v].front().reads) {
      return true;
    }
  }
  return false;
}

// Random changes drop waits, swap instructions and move values.
TEST(VerifyMemory, AgreesWithAllPairs) {
  std::mt19937 random(5);
  const auto below = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  int accepted = 0;
  int refused = 0;
  for_all_programs(3, [&](const Program& sound) {
    const MemoryPlan planned = plan_memory(sound, 0);
    for (int mutation = 0; mutation < 100; ++mutation) {
      Program program = sound;
      MemoryPlan plan = planned;
      const size_t i = below(program.instructions.size() - 1);
      const size_t v = below(program.values.size());
      const Instruction& instruction = program.instructions[i];
      const auto move_to = [&](size_t value, size_t other, int64_t by) {
        plan.offsets[value] = std::max<int64_t>(plan.offsets[other] + by, 0);
      };
      switch (mutation % 5) {
        case 0:
          program.instructions[i].waits.clear();
          break;
        case 1:
          std::swap(program.instructions[i], program.instructions[i + 1]);
          break;
        case 2:
          move_to(v, below(program.values.size()), 0);
          break;
        case 3:  // by a part of its size
          move_to(v, v, static_cast<int64_t>(64 * below(64)) - 2048);
          break;
        default:  // one operand onto another of its instruction
          move_to(static_cast<size_t>(instruction.outputs[0]),
                  static_cast<size_t>(instruction.inputs.empty() ? instruction.outputs[0]
                                                                 : instruction.inputs.back()),
                  0);
      }
      if (reads_before_write(program, plan)) {
        continue;
      }
      const bool right = right_by_pairs(program, plan);
      ++(right ? accepted : refused);
      bool found = true;
      try {
        const RankSteps steps(program, plan.rank);
        verify_memory(program, plan, Accesses(program, steps), HappensBefore(program, steps));
      } catch (const Error&) {
        found = false;
      }
      EXPECT_EQ(found, right) << "mutation " << mutation << " of instruction " << i << ", value "
                              << v;
    }
  });
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 50);
}

// Adds a value of `bytes` bytes at `offset`, for one rank.
void add_value(Program& program, MemoryPlan& plan, int64_t offset, int64_t bytes) {
  program.values.push_back({.name = "v" + std::to_string(program.values.size())});
  plan.offsets.push_back(offset);
  plan.sizes.push_back(bytes);
}

void expect(const Program& program, const MemoryPlan& plan, bool right) {
  EXPECT_EQ(right_by_pairs(program, plan), right);
  const auto verified = [&] {
    verify_memory(program, plan, Accesses(program), HappensBefore(program));
  };
  if (right) {
    EXPECT_NO_THROW(verified());
  } else {
    EXPECT_THROW(verified(), Error);
  }
}

// v0 is sent; then v1 overwrites the middle of its bytes, and v2 those before or after.
TEST(VerifyMemory, SeesWhatIsLeftOfAnEarlierValue) {
  for (const int64_t offset : {0, 128}) {
    Program program;
    MemoryPlan plan;
    add_value(program, plan, 0, 192);
    add_value(program, plan, 64, 64);
    add_value(program, plan, offset, 64);
    program.instructions = {
        {.stream = StreamKind::compute, .outputs = {0}},
        {.stream = StreamKind::comm, .inputs = {0}, .waits = {0}},
        {.stream = StreamKind::comm, .outputs = {1}},
        {.stream = StreamKind::compute, .outputs = {2}, .waits = {1}},
    };
    expect(program, plan, true);
    program.instructions[3].waits = {};
    expect(program, plan, false);
  }
}

TEST(VerifyMemory, RefusesAnOutputOverAnInput) {
  Program program;
  MemoryPlan plan;
  add_value(program, plan, 0, 64);
  add_value(program, plan, 64, 64);
  program.instructions = {{.outputs = {0}}, {.inputs = {0}, .outputs = {1}}};
  expect(program, plan, true);
  plan.offsets[1] = 32;
  expect(program, plan, false);
}

}  // namespace
}  // namespace hidup
