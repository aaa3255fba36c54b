// What the tests of Mixture-of-Experts kernels share: routings by their definition.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel_test.h"
#include "kernels/route.h"

namespace hidup::kernels::testing {

// The entries for chosen experts [batch, sequence, choices], as route.h defines them.
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

// Different random experts for every token, of those below `experts`.
inline Ints random_choices(const RouteSize& size, int64_t experts) {
  const int64_t tokens = size.batch * size.sequence;
  const auto first = random_tokens("first", tokens, experts);
  const auto other = random_tokens("other", tokens, std::max<int64_t>(1, experts - 1));
  Ints chosen;
  for (size_t t = 0; t < first.size(); ++t) {
    chosen.push_back(first[t]);
    if (size.choices > 1) {
      chosen.push_back(static_cast<int32_t>((first[t] + 1 + other[t]) % experts));
    }
  }
  return chosen;
}

inline Ints random_routing(const RouteSize& size) {
  return routing_of(random_choices(size, size.experts), size);
}

}  // namespace hidup::kernels::testing
