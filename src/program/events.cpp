#include <array>
#include <vector>

#include "program/access.h"
#include "program/lower.h"

namespace hidup {

void insert_waits(Program& program) {
  struct State {
    int writer = -1;
    std::array<int, kStreams> readers = {-1, -1};  // per stream: the last reader since the write
  };
  std::vector<State> states(program.values.size());
  // Per stream: the last instruction of the other stream that it has waited for.
  std::array<int, kStreams> covered = {-1, -1};

  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    const auto stream = static_cast<size_t>(instruction.stream);
    int latest = -1;  // the latest instruction of the other stream this one depends on
    const auto depend = [&](int on) {
      if (on > latest &&
          program.instructions[static_cast<size_t>(on)].stream != instruction.stream) {
        latest = on;
      }
    };
    for (const ValueId value : instruction.inputs) {
      depend(states[static_cast<size_t>(value)].writer);
    }
    for (const auto* values : {&instruction.outputs, &instruction.after_uses_of}) {
      for (const ValueId value : *values) {
        depend(states[static_cast<size_t>(value)].writer);
        for (const int reader : states[static_cast<size_t>(value)].readers) {
          depend(reader);
        }
      }
    }
    if (latest > covered[stream]) {
      instruction.waits = {latest};
      covered[stream] = latest;
    }
    for (const ValueId value : instruction.inputs) {
      states[static_cast<size_t>(value)].readers[stream] = i;
    }
    for (const ValueId value : instruction.outputs) {
      states[static_cast<size_t>(value)] = {.writer = i};
    }
  }
}

void mark_beside_messages(Program& program) {
  const HappensBefore before(program);
  std::vector<int> messages;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    if (program.instructions[static_cast<size_t>(i)].stream == StreamKind::comm) {
      messages.push_back(i);
    }
  }
  auto next = messages.begin();  // the first message that may not be done yet
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    if (instruction.stream != StreamKind::compute) {
      continue;
    }
    while (next != messages.end() && before(*next, i)) {
      ++next;
    }
    instruction.beside_messages = next != messages.end() && !before(i, *next);
  }
}

}  // namespace hidup
