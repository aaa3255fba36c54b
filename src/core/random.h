// Counter-based random numbers. A value depends on its purpose, never on the rank or time that
// computes it, so parameters, dropout masks and data order do not depend on ranks and strategy.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11). Device code may include this header.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/host_device.h"
#include "core/text.h"

namespace hidup {

struct Philox4 {
  uint32_t word[4];
};

// Runs ten rounds of Philox on a 128-bit counter under a 64-bit key.
HIDUP_HOST_DEVICE inline Philox4 philox(uint64_t counter_low, uint64_t counter_high, uint64_t key) {
  Philox4 c = {{static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)}};
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * c.word[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57U} * c.word[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// A stream of random words for a seed, a purpose and a step, by global element index. Elements 4i
// .. 4i+3 share one Philox call.
struct RandomStream {
  uint64_t key = 0;   // mixes seed and purpose
  uint64_t step = 0;  // upper half of the counter

  HIDUP_HOST_DEVICE Philox4 block(uint64_t index4) const { return philox(index4, step, key); }
  HIDUP_HOST_DEVICE uint32_t word(uint64_t index) const { return block(index / 4).word[index % 4]; }
  // Returns a uniform number in [0, 1), with the 24 bits that a float holds exactly.
  HIDUP_HOST_DEVICE float uniform(uint64_t index) const {
    return static_cast<float>(word(index) >> 8) * 0x1p-24F;
  }
  // Returns a normal number with mean 0 and variance 1 (Box and Muller, 1958) from the words 2
  // index and 2 index + 1. Computes in double, so that the last bit hardly depends on the math
  // library.
  float normal(uint64_t index) const {
    const Philox4 words = block(index / 2);
    const size_t first = index % 2 * 2;
    const double u = (static_cast<double>(words.word[first]) + 1.0) * 0x1p-32;  // above 0
    const double turn = static_cast<double>(words.word[first + 1]) * 0x1p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) *
                              std::cos(2.0 * std::numbers::pi * turn));
  }
};

// Returns the stream for `purpose`, such as the name of an operation or parameter, at `step`.
inline RandomStream random_stream(uint64_t seed, std::string_view purpose, uint64_t step = 0) {
  // A Philox call spreads the seed, so that seeds 1, 2, 3 share no key bits by accident.
  const Philox4 mixed = philox(hash_of(purpose), 0, seed);
  return {(uint64_t{mixed.word[1]} << 32) | mixed.word[0], step};
}

}  // namespace hidup
