// Shared by tests of joint problems of two and three axes. Case `number` of a test draws from a
// generator with that seed.
#pragma once

#include <array>

#include "brute_force.h"
#include "search/dp/dynamic.h"

namespace hidup {

inline constexpr double kRounding = 1e-9;  // of sums of seconds, relative to them
// The effort of search_strategy()'s options, without its bounds.
inline constexpr DynamicOptions kUsual{.width = 2, .states = 100, .bounds = 0};

// Returns one, two and four in turn.
inline int microbatches_of(int number) {
  constexpr std::array kMicrobatches = {1, 2, 4};
  return kMicrobatches.at(static_cast<size_t>(number) % kMicrobatches.size());
}

// Returns true for three cases of every six, which have a limit of memory.
inline bool is_limited(int number) {
  return number / 3 % 2 == 1;
}
inline void limit_every_other(int number, Problem& problem) {
  if (is_limited(number)) {
    problem.memory_limit = some_limit(problem);
  }
}

}  // namespace hidup
