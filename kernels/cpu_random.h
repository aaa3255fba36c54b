// The random words of many elements at a time, for CPU kernels.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "core/random.h"

namespace hidup::kernels {

inline constexpr int64_t kGroup = 8;  // blocks of four words computed together

// Four counter or random words, each in the lower half of its lane.
using Lanes [[gnu::vector_size(32)]] = uint64_t;

inline constexpr Lanes kLowerHalf = Lanes{} + 0xFFFFFFFFU;

// Returns the products of the lower halves.
inline Lanes multiply(Lanes a, Lanes b) {
#ifdef __AVX2__
  // GCC does not find this instruction for the expression below.
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return (a & kLowerHalf) * (b & kLowerHalf);
#endif
}

// Writes words[0 .. 4*blocks), rounded up to whole groups: the words of the blocks from `first` on,
// at least one block. They equal RandomStream::block() of each, but a group of blocks is computed
// at a time: the next product ignores the upper halves of the lanes.
inline void random_words(const RandomStream& random, uint64_t first, int64_t blocks,
                         uint32_t* words) {
  constexpr int kVectors = kGroup / 4;  // independent chains of multiplications
  int64_t group = 0;
  do {
    Lanes c[4][kVectors];
    for (int i = 0; i < kVectors; ++i) {
      c[0][i] = Lanes{0, 1, 2, 3} + (first + static_cast<uint64_t>(group + 4 * i));
      c[1][i] = c[0][i] >> 32;
      c[2][i] = Lanes{} + random.step;
      c[3][i] = c[2][i] >> 32;
    }
    auto k0 = static_cast<uint32_t>(random.key);
    auto k1 = static_cast<uint32_t>(random.key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kVectors; ++i) {
        const Lanes p0 = multiply(c[0][i], Lanes{} + 0xD2511F53U);
        const Lanes p1 = multiply(c[2][i], Lanes{} + 0xCD9E8D57U);
        c[0][i] = (p1 >> 32) ^ c[1][i] ^ uint64_t { k0 };
        c[1][i] = p1;
        c[2][i] = (p0 >> 32) ^ c[3][i] ^ uint64_t { k1 };
        c[3][i] = p0;
      }
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    for (int i = 0; i < kVectors; ++i) {
      const Lanes w01 = (c[0][i] & kLowerHalf) | (c[1][i] << 32);
      const Lanes w23 = (c[2][i] & kLowerHalf) | (c[3][i] << 32);
      const Lanes halves[2] = {__builtin_shufflevector(w01, w23, 0, 4, 1, 5),
                               __builtin_shufflevector(w01, w23, 2, 6, 3, 7)};
      std::memcpy(words + 4 * (group + 4 * i), halves, sizeof(halves));
    }
    group += kGroup;
  } while (group < blocks);
}

inline constexpr int64_t kWordsAtATime = 1024;

// Calls use(begin, length, words) for pieces of n elements; words[i] belongs to element begin + i.
// Element 0 has number `index` in the stream.
template <typename Use>
void for_words(const RandomStream& random, uint64_t index, int64_t n, Use use) {
  for (int64_t begin = 0; begin < n; begin += kWordsAtATime) {
    const int64_t length = n - begin < kWordsAtATime ? n - begin : kWordsAtATime;
    const uint64_t first = index + static_cast<uint64_t>(begin);
    const auto offset = static_cast<int64_t>(first % 4);
    uint32_t words[kWordsAtATime + 4 * kGroup];
    random_words(random, first / 4, (offset + length + 3) / 4, words);
    use(begin, length, words + offset);
  }
}

}  // namespace hidup::kernels
