// Routings by their definition, for tests of Mixture-of-Experts kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel_test.h"
#include "kernels/route.h"

namespace hidup::kernels::testing {

// Returns the entries for chosen experts [batch, sequence, choices], as route.h defines them.
inline Ints routing_of(const Ints& chosen, const RouteSize& size) {
  Ints routing(chosen.size());
  for (int64_t b = 0; b < size.batch; ++b) {
    for (int64_t expert = 0; expert < size.experts; ++expert) {
      int64_t slot = 0;
      for (int64_t c = 0; c < size.choices; ++c) {
        for (int64_t s = 0; s < size.sequence; ++s) {
          const auto i = static_cast<size_t>((b * size.sequence + s) * size.choices + c);
          if (chosen[i] == expert) {
            routing[i] = static_cast<int32_t>(slot < size.capacity ? expert * size.capacity + slot
                                                                   : -(expert + 1));
            ++slot;
          }
        }
      }
    }
  }
  return routing;
}

// Returns different random experts below `experts` for every token.
inline Ints random_choices(const RouteSize& size, int64_t experts) {
  const int64_t tokens = size.batch * size.sequence;
  const auto first = random_tokens("first", tokens, experts);
  const auto other = random_tokens("other", tokens, std::max<int64_t>(1, experts - 1));
  Ints chosen;
  for (size_t t = 0; t < first.size(); ++t) {
    std::vector<int32_t> mine = {first[t]};
    while (static_cast<int64_t>(mine.size()) < size.choices) {
      const int64_t step = mine.size() == 1 ? 1 + other[t] : 1;
      auto next = static_cast<int32_t>((mine.back() + step) % experts);
      while (static_cast<int64_t>(mine.size()) < experts &&
             std::find(mine.begin(), mine.end(), next) != mine.end()) {
        next = static_cast<int32_t>((next + 1) % experts);
      }
      mine.push_back(next);
    }
    for (const int32_t expert : mine) {
      chosen.push_back(expert);
    }
  }
  return chosen;
}

inline Ints random_routing(const RouteSize& size) {
  return routing_of(random_choices(size, size.experts), size);
}

}  // namespace hidup::kernels::testing
