#include "sharding/share.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/random.h"
#include "sharding/placement.h"

namespace hidup {
namespace {

// Gives seat after seat, as the rule defines it.
std::vector<int64_t> one_by_one(const Share& share, int64_t seats) {
  std::vector<int64_t> given(share.size(), 0);
  for (int64_t seat = 0; seat < seats; ++seat) {
    size_t best = 0;
    for (size_t rank = 1; rank < share.size(); ++rank) {
      if (share[rank] * (2 * given[best] + 1) > share[best] * (2 * given[rank] + 1)) {
        best = rank;
      }
    }
    ++given[best];
  }
  return given;
}

std::vector<Share> random_shares() {
  std::vector<Share> shares;
  const RandomStream random = random_stream(1, "shares");
  uint64_t next = 0;
  for (int i = 0; i < 300; ++i) {
    const auto ranks = static_cast<size_t>(1 + random.word(next++) % 7);
    const uint64_t most = i % 3 == 0 ? 3 : i % 3 == 1 ? 20 : kMostWeight;
    Share share;
    for (size_t rank = 0; rank < ranks; ++rank) {
      share.push_back(static_cast<int64_t>(random.word(next++) % most));
    }
    ++share[random.word(next++) % ranks];
    shares.push_back(share);
  }
  return shares;
}

TEST(Shares, SeatsGoToTheLargestQuotient) {
  EXPECT_EQ(seats_of({2, 1}, 3), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(seats_of({53, 24, 23}, 7), (std::vector<int64_t>{3, 2, 2}));
  EXPECT_EQ(seats_of({0, 1, 0}, 5), (std::vector<int64_t>{0, 5, 0}));
  EXPECT_EQ(seats_of({1, 1, 1}, 2), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(seats_of({1, 1'000'000}, 1'000'001), (std::vector<int64_t>{1, 1'000'000}));
  for (const Share& share : random_shares()) {
    for (int64_t seats = 0; seats < 60; ++seats) {
      ASSERT_EQ(seats_of(share, seats), one_by_one(share, seats))
          << ::testing::PrintToString(share) << " " << seats;
    }
  }
}

TEST(Shares, LargeOnesAreInProportion) {
  constexpr int64_t kSeats = int64_t{1} << 40;
  for (const Share& share : random_shares()) {
    const std::vector<int64_t> seats = seats_of(share, kSeats);
    const auto total = static_cast<double>(std::reduce(share.begin(), share.end(), int64_t{0}));
    EXPECT_EQ(std::reduce(seats.begin(), seats.end(), int64_t{0}), kSeats);
    for (size_t rank = 0; rank < share.size(); ++rank) {
      EXPECT_NEAR(static_cast<double>(seats[rank]),
                  static_cast<double>(kSeats) * static_cast<double>(share[rank]) / total, 8.0);
    }
  }
}

TEST(Shares, EqualOnesAreBalanced) {
  for (int64_t ranks = 1; ranks < 7; ++ranks) {
    for (int64_t extent = 0; extent < 20; ++extent) {
      for (int64_t start = 0; start < 15; ++start) {
        EXPECT_EQ(offsets_of(Share(static_cast<size_t>(ranks), 3), extent, start),
                  balanced_offsets(extent, ranks, start))
            << extent << " " << ranks << " " << start;
      }
    }
  }
}

// The parts of consecutive ranges add up to those of the whole.
TEST(Shares, PartsOfMicrobatchesAddUp) {
  for (const Share& share : random_shares()) {
    const std::vector<int64_t> whole = offsets_of(share, 37);
    std::vector<int64_t> sums(whole.size(), 0);
    for (const auto& [start, end] : {std::pair(0, 13), {13, 14}, {14, 14}, {14, 37}}) {
      const std::vector<int64_t> part = offsets_of(share, end - start, start);
      EXPECT_EQ(part.back(), end - start);
      for (size_t i = 0; i < part.size(); ++i) {
        sums[i] += part[i];
      }
    }
    EXPECT_EQ(sums, whole);
  }
}

}  // namespace
}  // namespace hidup
