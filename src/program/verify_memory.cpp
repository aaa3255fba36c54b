#include "program/verify_memory.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "program/print.h"

namespace hidup {
namespace {

// Happens-before is transitive, so checks of neighbours suffice: of each write with the accesses
// since the last write, and of each value with the last owners of its bytes.
class MemoryCheck {
 public:
  MemoryCheck(const Program& program, const MemoryPlan& plan, const Accesses& accesses,
              const HappensBefore& before)
      : program_(program), plan_(plan), accesses_(accesses), before_(before) {}

  void run() {
    // First use (-1 for persistent values) and value.
    std::vector<std::pair<int, size_t>> order;
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const bool is_buffer = !program_.values[v].holds.empty();
      if (is_buffer || program_.lies_on(static_cast<ValueId>(v), plan_.rank)) {
        check_own_accesses(v);
      }
      if (program_.values[v].persistent()) {
        order.emplace_back(-1, v);
      } else if (!accesses_[v].empty()) {
        order.emplace_back(accesses_[v].front().instruction, v);
      }
    }
    std::ranges::sort(order);
    for (const auto& [first, v] : order) {
      take_bytes(v);
    }
  }

 private:
  // Bytes up to `end`, and the last value that had them.
  struct Piece {
    int64_t end = 0;
    size_t value = 0;
  };

  void check_order(int early, int late, size_t value) const {
    if (!before_(early, late)) {
      fail(ExitCode::internal, "nothing orders {} before {}, and both use {}",
           describe(program_, early), describe(program_, late), program_.values[value].name);
    }
  }

  // Checks the reads and writes of the value itself.
  void check_own_accesses(size_t value) const {
    int written = -1;
    std::array<int, kStreams> read;  // per stream: the last read since the write
    read.fill(-1);
    for (const Access& access : accesses_[value]) {
      if (written >= 0) {
        check_order(written, access.instruction, value);
      }
      if (!access.writes) {
        read[stream_of(access.instruction)] = access.instruction;
        continue;
      }
      for (const int reader : read) {
        if (reader >= 0) {
          check_order(reader, access.instruction, value);
        }
      }
      written = access.instruction;
      read.fill(-1);
    }
  }

  // Gives the value its bytes, after checks against their last owners.
  void take_bytes(size_t value) {
    const int64_t begin = plan_.offsets[value];
    const int64_t end = begin + plan_.sizes[value];
    if (begin == end) {
      return;
    }
    auto at = taken_.upper_bound(begin);
    if (at != taken_.begin() && std::prev(at)->second.end > begin) {
      --at;
    }
    while (at != taken_.end() && at->first < end) {
      const auto [first, old] = *at;
      check_follows(old.value, value);
      at = taken_.erase(at);
      if (first < begin) {
        taken_.emplace_hint(at, first, Piece{begin, old.value});
      }
      if (old.end > end) {
        at = taken_.emplace_hint(at, end, old);
      }
    }
    taken_.emplace_hint(at, begin, Piece{end, value});
  }

  // Checks that all uses of the old value are done before the first use of the new one.
  void check_follows(size_t old, size_t value) const {
    const Value& first = program_.values[old];
    const Value& second = program_.values[value];
    if (first.persistent() || second.persistent()) {
      fail(ExitCode::internal, "{} and {} overlap in memory", first.name, second.name);
    }
    const int begin = accesses_[value].front().instruction;
    if (accesses_[old].back().instruction >= begin) {
      fail(ExitCode::internal, "{} and {} overlap in memory while both are in use", first.name,
           second.name);
    }
    for (const int use : accesses_.last_uses(old)) {
      if (use >= 0) {
        check_order(use, begin, old);
      }
    }
  }

  size_t stream_of(int instruction) const {
    return static_cast<size_t>(program_.instructions[static_cast<size_t>(instruction)].stream);
  }

  const Program& program_;
  const MemoryPlan& plan_;
  const Accesses& accesses_;
  const HappensBefore& before_;
  std::map<int64_t, Piece> taken_;  // by first byte
};

}  // namespace

void verify_memory(const Program& program, const MemoryPlan& plan, const Accesses& accesses,
                   const HappensBefore& before) {
  MemoryCheck(program, plan, accesses, before).run();
}

}  // namespace hidup
