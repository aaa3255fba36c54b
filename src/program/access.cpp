#include "program/access.h"

#include <algorithm>

namespace hidup {

std::vector<std::vector<Access>> accesses_of(const Program& program) {
  std::vector<std::vector<Access>> accesses(program.values.size());
  const auto touch = [&](ValueId value, int instruction, bool writes, bool reads) {
    std::vector<Access>& list = accesses[static_cast<size_t>(value)];
    if (list.empty() || list.back().instruction != instruction) {
      list.push_back({instruction, false, false});
    }
    list.back().reads |= reads;
    list.back().writes |= writes;
  };
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    for (const ValueId value : instruction.inputs) {
      touch(value, i, false, true);
    }
    for (size_t k = 0; k < instruction.outputs.size(); ++k) {
      touch(instruction.outputs[k], i, true, adds_to(instruction, k));
    }
  }
  return accesses;
}

HappensBefore::HappensBefore(const Program& program) {
  std::array<std::array<int, kStreams>, kStreams> now{};  // per stream: its clock
  for (auto& clock : now) {
    clock.fill(-1);
  }
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    auto& clock = now[static_cast<size_t>(instruction.stream)];
    for (const int wait : instruction.waits) {
      if (wait < 0 || wait >= i) {
        continue;  // the verifier reports it
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
