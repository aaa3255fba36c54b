#include "program/access.h"

#include <algorithm>
#include <numeric>

namespace hidup {

namespace {

// Calls touch(value, instruction, reads, writes) for every operand, in list order.
template <typename Touch>
void for_operands(const Program& program, const RankSteps& steps, Touch touch) {
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    if (!steps.runs(static_cast<size_t>(i))) {
      continue;
    }
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    for (const ValueId value : instruction.inputs) {
      touch(static_cast<size_t>(value), i, true, false);
    }
    for (size_t k = 0; k < instruction.outputs.size(); ++k) {
      touch(static_cast<size_t>(instruction.outputs[k]), i, adds_to(instruction, k), true);
    }
  }
}

}  // namespace

Accesses::Accesses(const Program& program, const RankSteps& steps)
    : starts_(program.values.size() + 1, 0) {
  std::array<int, kStreams> never{};
  never.fill(-1);
  last_uses_.assign(program.values.size(), never);
  std::vector<int> latest(program.values.size(), -1);  // per value: its latest instruction
  for_operands(program, steps, [&](size_t value, int instruction, bool, bool) {
    starts_[value + 1] += latest[value] == instruction ? 0 : 1;
    latest[value] = instruction;
  });
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  list_.resize(starts_.back());
  std::vector<size_t> ends(starts_.begin(), starts_.end() - 1);
  for_operands(program, steps, [&](size_t value, int instruction, bool reads, bool writes) {
    const bool is_same =
        ends[value] > starts_[value] && list_[ends[value] - 1].instruction == instruction;
    Access& access = list_[is_same ? ends[value] - 1 : ends[value]++];
    access = {instruction, access.reads || reads, access.writes || writes};
    const Instruction& user = program.instructions[static_cast<size_t>(instruction)];
    last_uses_[value][static_cast<size_t>(user.stream)] = instruction;
  });
}

HappensBefore::HappensBefore(const Program& program, const RankSteps& steps) {
  std::array<std::array<int, kStreams>, kStreams> now{};  // per stream: its clock
  for (auto& clock : now) {
    clock.fill(-1);
  }
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    auto& clock = now[static_cast<size_t>(instruction.stream)];
    for (const int wait : instruction.waits) {
      if (wait < 0 || wait >= i || !steps.runs(static_cast<size_t>(i)) ||
          !steps.runs(static_cast<size_t>(wait))) {
        continue;  // the verifier reports waits that are out of range
      }
      const auto waited = static_cast<size_t>(wait);
      for (size_t s = 0; s < kStreams; ++s) {
        clock[s] = std::max(clock[s], clock_[waited][s]);
      }
      auto& own = clock[static_cast<size_t>(stream_[waited])];
      own = std::max(own, wait);
    }
    stream_.push_back(instruction.stream);
    clock_.push_back(clock);
    clock[static_cast<size_t>(instruction.stream)] = i;
  }
}

bool HappensBefore::operator()(int a, int b) const {
  return clock_[static_cast<size_t>(b)][static_cast<size_t>(stream_[static_cast<size_t>(a)])] >= a;
}

}  // namespace hidup
