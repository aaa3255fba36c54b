#include "cost/dependency_floor.h"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>
#include <vector>

#include "program/access.h"

namespace hidup {
namespace {

using Ends = std::array<Nanoseconds, kStreams>;  // the latest end on each stream; -1: none

constexpr Ends kNone = [] {
  Ends none{};
  none.fill(-1);
  return none;
}();

// The access of an instruction to a value, as far as it constrains the order of instructions.
enum class Use { read, add, write };

struct ValueUse {
  ValueId value;
  Use use;
};

// Returns one access for every value that the instruction touches.
std::vector<ValueUse> uses_of(const Instruction& instruction) {
  std::vector<ValueUse> uses;
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    uses.push_back({instruction.outputs[i], adds_to(instruction, i) ? Use::add : Use::write});
  }
  for (const ValueId input : instruction.inputs) {
    const auto is_it = [&](const ValueUse& use) { return use.value == input; };
    if (std::ranges::none_of(uses, is_it)) {
      uses.push_back({input, Use::read});
    }
  }
  return uses;
}

// The accesses to one value on one rank, in one direction of time. Consecutive reads form a run and
// may change places; so do consecutive additions. A run comes after all of the run before it.
class ValueOrder {
 public:
  // Returns the ends that the access must follow.
  const Ends& before(Use use) const { return continues(use) ? earlier_ : run_; }
  void add(Use use, size_t stream, Nanoseconds end) {
    if (!continues(use)) {
      earlier_ = run_;
      run_ = kNone;
      use_ = use;
    }
    run_[stream] = std::max(run_[stream], end);
  }

 private:
  bool continues(Use use) const { return use == use_ && use != Use::write; }

  Use use_ = Use::write;
  Ends run_ = kNone;
  Ends earlier_ = kNone;
};

// Longest paths to the instructions of all ranks, without the instructions' own durations.
// `backward`: paths from their ends to the end of the step.
class Paths {
 public:
  Paths(const Program& program, const Durations& durations, bool backward)
      : program_(program), durations_(durations) {
    const size_t count = program.instructions.size();
    const auto ranks = static_cast<size_t>(durations.ranks());
    lengths_.assign(ranks, std::vector<Nanoseconds>(count, 0));
    orders_.assign(ranks, std::vector<ValueOrder>(program.values.size()));
    is_there_.resize(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
        is_there_[rank].push_back(program.local_bytes(id, static_cast<int64_t>(rank)) > 0);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      visit(backward ? count - 1 - i : i);
    }
  }

  Nanoseconds to(size_t rank, size_t instruction) const { return lengths_[rank][instruction]; }

 private:
  bool runs(size_t rank, size_t i) const {
    return durations_.steps(static_cast<int64_t>(rank)).runs(i);
  }

  void visit(size_t i) {
    const Instruction& instruction = program_.instructions[i];
    const auto stream = static_cast<size_t>(instruction.stream);
    const std::vector<ValueUse> uses = uses_of(instruction);
    const int id = static_cast<int>(i);
    for (size_t rank = 0; rank < lengths_.size(); ++rank) {
      if (!runs(rank, i)) {
        continue;
      }
      Nanoseconds& length = lengths_[rank][i];
      for (const int64_t other : durations_.group(id, static_cast<int64_t>(rank))) {
        length = std::max(length, after_uses(uses, stream, static_cast<size_t>(other)));
      }
    }
    for (size_t rank = 0; rank < lengths_.size(); ++rank) {
      if (!runs(rank, i)) {
        continue;
      }
      const Nanoseconds end = lengths_[rank][i] + durations_.least(id, static_cast<int64_t>(rank));
      for (const ValueUse& use : uses) {
        if (is_there_[rank][static_cast<size_t>(use.value)]) {
          orders_[rank][static_cast<size_t>(use.value)].add(use.use, stream, end);
        }
      }
    }
  }

  // Returns the time at which the rank has the instruction's data.
  Nanoseconds after_uses(const std::vector<ValueUse>& uses, size_t stream, size_t rank) const {
    Nanoseconds after = 0;
    for (const ValueUse& use : uses) {
      const Ends& ends = orders_[rank][static_cast<size_t>(use.value)].before(use.use);
      for (size_t from = 0; from < kStreams; ++from) {
        const Nanoseconds gap = from == stream ? durations_.launch() : durations_.signal();
        after = ends[from] < 0 ? after : std::max(after, ends[from] + gap);
      }
    }
    return after;
  }

  const Program& program_;
  const Durations& durations_;
  std::vector<std::vector<Nanoseconds>> lengths_;  // [rank][instruction]
  std::vector<std::vector<ValueOrder>> orders_;    // [rank][value]
  std::vector<std::vector<bool>> is_there_;        // [rank][value]
};

}  // namespace

int64_t one_machine_floor(std::span<const Job> jobs) {
  std::vector<Job> by_head(jobs.begin(), jobs.end());
  std::ranges::sort(by_head, {}, &Job::head);
  std::priority_queue<std::pair<int64_t, int64_t>> there;  // tail, and the rest of the length
  int64_t now = 0;
  int64_t end = 0;
  for (size_t next = 0; next < by_head.size() || !there.empty();) {
    if (there.empty()) {
      now = std::max(now, by_head[next].head);
    }
    for (; next < by_head.size() && by_head[next].head <= now; ++next) {
      there.emplace(by_head[next].tail, by_head[next].length);
    }
    const auto [tail, left] = there.top();
    there.pop();
    const int64_t until = next < by_head.size() ? by_head[next].head : now + left;
    if (until < now + left) {
      there.emplace(tail, left - (until - now));
      now = until;
    } else {
      now += left;
      end = std::max(end, now + tail);
    }
  }
  return end;
}

Nanoseconds dependency_floor(const Program& program, const Durations& durations) {
  const Paths heads(program, durations, false);
  const Paths tails(program, durations, true);
  Nanoseconds floor = 0;
  for (size_t rank = 0; rank < static_cast<size_t>(durations.ranks()); ++rank) {
    std::array<std::vector<Job>, kStreams> streams;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (!durations.steps(static_cast<int64_t>(rank)).runs(i)) {
        continue;
      }
      const Nanoseconds length =
          durations.least(static_cast<int>(i), static_cast<int64_t>(rank)) + durations.launch();
      streams[static_cast<size_t>(program.instructions[i].stream)].push_back(
          {.head = heads.to(rank, i), .length = length, .tail = tails.to(rank, i)});
    }
    for (const std::vector<Job>& jobs : streams) {
      // No launch follows the last instruction of a stream.
      floor = std::max(floor, one_machine_floor(jobs) - (jobs.empty() ? 0 : durations.launch()));
    }
  }
  return floor;
}

}  // namespace hidup
