#include "sixteen_bit_cases.h"

#include <gtest/gtest.h>

#include "case_data.h"
#include "core/half.h"

namespace hidup {
namespace {

// A sum of positive numbers is rounded once for every rank after the first, equally on all ranks.
template <typename Element>
void all_reduce_rounds(Communicator& world, DType dtype, float rounding) {
  OwnStream stream;
  for (const int64_t count : {1, 7, 1001, 70001}) {
    std::vector<Element> data;
    std::vector<float> exact(static_cast<size_t>(count), 0.0F);
    for (int rank = 0; rank < world.size(); ++rank) {
      for (size_t i = 0; i < exact.size(); ++i) {
        const Element mine(1.0F / static_cast<float>(i % 1000 + 1) + static_cast<float>(rank));
        exact[i] += mine;
        if (rank == world.rank()) {
          data.push_back(mine);
        }
      }
    }
    Array<Element> on_device(stream, data);
    world.all_reduce(*stream, on_device.data(), count, dtype, CollectiveAlgorithm::automatic,
                     "data");
    data = on_device.values();
    std::vector<float> sums;
    for (size_t i = 0; i < data.size(); ++i) {
      sums.push_back(data[i]);
      ASSERT_NEAR(sums[i], exact[i], static_cast<float>(world.size() - 1) * rounding * exact[i]);
    }
    const uint64_t bits = bits_of(sums);
    for (const uint64_t other : all_gather_value(world, bits)) {
      EXPECT_EQ(other, bits);
    }
  }
}

template <typename Element>
void reduce_scatter_of_small_integers(Communicator& world, DType dtype) {
  OwnStream stream;
  const int ranks = world.size();
  for (const Counts& counts : count_patterns(ranks)) {
    std::vector<Element> send;  // its sum is exact
    for (int64_t i = 0; i < sum_of(counts); ++i) {
      send.emplace_back(static_cast<float>(i % 13 + world.rank()));
    }
    const int64_t mine = counts[static_cast<size_t>(world.rank())];
    Array<Element> sent(stream, send);
    Array<Element> receive(stream, std::vector<Element>(static_cast<size_t>(mine) + 1,
                                                        Element(static_cast<float>(kGuard))));
    world.reduce_scatter(*stream, sent.data(), receive.data(), counts, dtype,
                         CollectiveAlgorithm::automatic, "sums");
    const int64_t start = sum_of(Counts(counts.begin(), counts.begin() + world.rank()));
    std::vector<float> wanted;
    for (int64_t i = start; i < start + mine; ++i) {
      wanted.push_back(static_cast<float>(i % 13 * ranks + ranks * (ranks - 1) / 2));
    }
    wanted.push_back(static_cast<float>(kGuard));
    const std::vector<Element> received = receive.values();
    expect_equal(std::vector<float>(received.begin(), received.end()), wanted);
  }
}

}  // namespace

// Elements of two bytes are moved whole, and bytes around them stay.
void two_bytes_are_moved(Communicator& world) {
  OwnStream stream;
  const auto self = static_cast<size_t>(world.rank());
  for (const Counts& counts : count_patterns(world.size())) {
    const auto value = [](size_t rank, int64_t i) {
      return static_cast<int16_t>(static_cast<int64_t>(rank) * 7919 + i);
    };
    constexpr int16_t kGuarded = -77;
    std::vector<int16_t> send;
    for (int64_t i = 0; i < counts[self]; ++i) {
      send.push_back(value(self, i));
    }
    std::vector<int16_t> wanted;
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      for (int64_t i = 0; i < counts[rank]; ++i) {
        wanted.push_back(value(rank, i));
      }
    }
    wanted.push_back(kGuarded);
    Array<int16_t> sent(stream, send);
    Array<int16_t> all(stream, std::vector<int16_t>(wanted.size(), kGuarded));
    world.all_gather(*stream, sent.data(), all.data(), counts, DType::bf16,
                     CollectiveAlgorithm::automatic, "parts");
    EXPECT_EQ(all.values(), wanted);
    // Copies return to their source: rank r sends its copy of rank p's part to p.
    Array<int16_t> returned(
        stream,
        std::vector<int16_t>(static_cast<size_t>(counts[self]) * counts.size() + 1, kGuarded));
    world.all_to_all(*stream, all.data(), counts, returned.data(),
                     Counts(counts.size(), counts[self]), DType::f16,
                     CollectiveAlgorithm::automatic, "copies");
    std::vector<int16_t> mine = world.rank() == 0 ? wanted : std::vector<int16_t>(wanted.size(), 1);
    mine.back() = kGuarded;
    Array<int16_t> first(stream, mine);
    world.broadcast(*stream, first.data(), static_cast<int64_t>(mine.size()) - 1, 0, DType::bf16,
                    "first");
    const std::vector<int16_t> copies = returned.values();
    EXPECT_EQ(copies.back(), kGuarded);
    for (size_t i = 0; i + 1 < copies.size(); ++i) {
      ASSERT_EQ(copies[i], send[i % send.size()]);
    }
    EXPECT_EQ(first.values(), wanted);
  }
}

void sixteen_bits_are_summed(Communicator& world) {
  all_reduce_rounds<BFloat16>(world, DType::bf16, 0x1p-8F);
  all_reduce_rounds<Float16>(world, DType::f16, 0x1p-11F);
  reduce_scatter_of_small_integers<BFloat16>(world, DType::bf16);
  reduce_scatter_of_small_integers<Float16>(world, DType::f16);
}

}  // namespace hidup
