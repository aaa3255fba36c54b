// Pseudorandom orders that are the same in every run, inside the shim.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_shim {

// A permutation of 0 .. count-1: a bijection on the next power of 2, repeated until the result is
// below count.
class Order {
 public:
  Order(uint64_t count, uint64_t launch)
      : count_(count),
        bits_(std::bit_width(count - 1)),
        mask_((uint64_t{1} << bits_) - 1),
        key_((launch + 1) * 0x9E3779B97F4A7C15U) {}

  uint64_t at(uint64_t i) const {
    do {
      i = shuffled(i);
    } while (i >= count_);
    return i;
  }

 private:
  uint64_t shuffled(uint64_t i) const {
    for (const int shift : {40, 20, 0}) {
      i = (i * 0xD1342543DE82EF95U + (key_ >> shift)) & mask_;
      i ^= i >> ((bits_ + 1) / 2);
    }
    return i;
  }

  uint64_t count_;
  int bits_;
  uint64_t mask_;
  uint64_t key_;
};

inline std::vector<size_t> in_order(uint64_t count, uint64_t launch) {
  const Order order(count, launch);
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; ++i) {
    all[i] = order.at(i);
  }
  return all;
}

}  // namespace cuda_shim
