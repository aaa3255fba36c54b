#include <algorithm>
#include <array>
#include <vector>

#include "program/access.h"
#include "program/lower.h"

namespace hidup {
namespace {

using Latest = std::array<int, kStreams>;  // per stream: an instruction; -1: none

constexpr Latest kNone = [] {
  Latest none{};
  none.fill(-1);
  return none;
}();

// Returns the steps of all ranks that differ.
std::vector<RankSteps> distinct_steps(const Program& program) {
  std::vector<RankSteps> distinct;
  for (const int64_t rank : distinct_ranks(program)) {
    RankSteps steps(program, rank);
    if (std::ranges::find(distinct, steps) == distinct.end()) {
      distinct.push_back(std::move(steps));
    }
  }
  return distinct;
}

// Adds the waits that one rank needs.
class WaitsOfRank {
 public:
  WaitsOfRank(Program& program, const RankSteps& steps)
      : program_(program), steps_(steps), states_(program.values.size()) {
    covered_.fill(kNone);
  }

  // `also`: further instructions that each instruction waits for.
  void run(const std::vector<std::vector<int>>& also) {
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      if (steps_.runs(static_cast<size_t>(i))) {
        visit(i, also.empty() ? std::vector<int>() : also[static_cast<size_t>(i)]);
      }
    }
  }

 private:
  struct State {
    int writer = -1;
    Latest readers = kNone;  // per stream: the last reader since the write
  };

  size_t stream_of(int instruction) const {
    return static_cast<size_t>(program_.instructions[static_cast<size_t>(instruction)].stream);
  }

  void visit(int i, const std::vector<int>& also) {
    Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
    Latest latest = kNone;  // the latest instruction of each stream that this one depends on
    const auto depend = [&](int on) {
      if (on >= 0 && steps_.runs(static_cast<size_t>(on))) {
        latest[stream_of(on)] = std::max(latest[stream_of(on)], on);
      }
    };
    for (const ValueId value : instruction.inputs) {
      depend(state(value).writer);
    }
    for (const auto* values : {&instruction.outputs, &instruction.after_uses_of}) {
      for (const ValueId value : *values) {
        depend(state(value).writer);
        std::ranges::for_each(state(value).readers, depend);
      }
    }
    std::ranges::for_each(also, depend);
    add_waits(instruction, latest);
    for (const ValueId value : instruction.inputs) {
      state(value).readers[stream_of(i)] = i;
    }
    for (const ValueId value : instruction.outputs) {
      state(value) = {.writer = i};
    }
  }

  void add_waits(Instruction& instruction, const Latest& latest) {
    const auto own = static_cast<size_t>(instruction.stream);
    for (size_t stream = 0; stream < kStreams; ++stream) {
      int& covered = covered_[own][stream];
      if (stream == own || latest[stream] <= covered) {
        continue;
      }
      covered = latest[stream];
      std::vector<int>& waits = instruction.waits;
      const auto place = std::ranges::lower_bound(waits, covered);
      if (place == waits.end() || *place != covered) {
        waits.insert(place, covered);
      }
    }
  }

  State& state(ValueId value) { return states_[static_cast<size_t>(value)]; }

  Program& program_;
  const RankSteps& steps_;
  std::vector<State> states_;
  // Per stream: the last instruction of every other stream that it has waited for.
  std::array<Latest, kStreams> covered_{};
};

}  // namespace

void insert_waits(Program& program, const std::vector<std::vector<int>>& also) {
  for (const RankSteps& steps : distinct_steps(program)) {
    WaitsOfRank(program, steps).run(also);
  }
}

namespace {

// Marks the computation beside which messages of one stream may run on a rank.
void mark_beside(Program& program, const RankSteps& steps, const HappensBefore& before,
                 StreamKind stream) {
  std::vector<int> messages;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    if (program.instructions[static_cast<size_t>(i)].stream == stream &&
        steps.runs(static_cast<size_t>(i))) {
      messages.push_back(i);
    }
  }
  auto next = messages.begin();  // the first message that may not be done yet
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    Instruction& instruction = program.instructions[static_cast<size_t>(i)];
    if (communicates(instruction.stream) || !steps.runs(static_cast<size_t>(i))) {
      continue;
    }
    while (next != messages.end() && before(*next, i)) {
      ++next;
    }
    instruction.beside_messages |= next != messages.end() && !before(i, *next);
  }
}

}  // namespace

void mark_beside_messages(Program& program) {
  for (const RankSteps& steps : distinct_steps(program)) {
    const HappensBefore before(program, steps);
    for (const StreamKind stream : {StreamKind::comm, StreamKind::down, StreamKind::up}) {
      mark_beside(program, steps, before, stream);
    }
  }
}

}  // namespace hidup
