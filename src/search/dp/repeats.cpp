#include "search/dp/repeats.h"

#include <algorithm>

namespace hidup {
namespace {

// The most operations of a block; time grows with it. A layer with experts has about 20.
constexpr size_t kLongestPeriod = 512;
// The front before the first block differs from all others. Repetition shows after the second block
// at the earliest, so blocks can be skipped from the third on.
constexpr size_t kFewestBlocks = 3;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

// Returns the repeat from `begin` that covers most operations; of equal ones the shortest period.
Repeat longest_repeat(const std::vector<uint64_t>& sequence, size_t begin) {
  Repeat best{begin, 1, 1};
  const size_t rest = sequence.size() - begin;
  for (size_t period = 1; period <= std::min(kLongestPeriod, rest / kFewestBlocks); ++period) {
    size_t equal = 0;
    while (begin + period + equal < sequence.size() &&
           sequence[begin + equal] == sequence[begin + period + equal]) {
      ++equal;
    }
    const size_t count = equal / period + 1;
    if (count >= kFewestBlocks && count * period > best.count * best.period) {
      best = {begin, period, count};
    }
  }
  return best;
}

}  // namespace

std::vector<Repeat> find_repeats(const std::vector<uint64_t>& sequence) {
  std::vector<Repeat> repeats;
  for (size_t begin = 0; begin < sequence.size();) {
    const Repeat repeat = longest_repeat(sequence, begin);
    if (repeat.count >= kFewestBlocks) {
      repeats.push_back(repeat);
    }
    begin += repeat.count * repeat.period;
  }
  return repeats;
}

uint64_t combined(uint64_t signature, uint64_t number) {
  return mix(signature, number);
}

std::vector<uint64_t> signatures_of(const Problem& problem) {
  const size_t count = problem.ops.size();
  std::vector<uint64_t> signatures(count);
  std::vector<uint64_t> read(count);  // per operation: the readers of its output
  for (size_t op = 0; op < count; ++op) {
    const SearchOp& self = problem.ops[op];
    for (size_t i = 0; i < self.inputs.size(); ++i) {
      const auto input = static_cast<size_t>(self.inputs[i]);
      read[input] = mix(mix(mix(read[input], op - input), static_cast<uint64_t>(self.kind)), i);
    }
  }
  for (size_t op = 0; op < count; ++op) {
    const SearchOp& self = problem.ops[op];
    uint64_t hash = mix(static_cast<uint64_t>(self.kind) + 1, read[op]);
    for (const int producer : self.inputs) {
      const auto input = static_cast<size_t>(producer);
      hash = mix(mix(hash, op - input), read[input]);
      hash = mix(hash, static_cast<uint64_t>(problem.ops[input].kind));
    }
    signatures[op] = hash;
  }
  return signatures;
}

}  // namespace hidup
