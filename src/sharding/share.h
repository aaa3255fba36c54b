// How much of something each rank of an axis has: parts need not be equal, and may be empty.
//
// Rules do not know shares: with_share() stamps them on the placements that a rule gives. A rank
// of weight 0 has nothing, of a replica or a summand either; support_of() (placement.h) is one
// number for all shares with the same such ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace hidup {

inline constexpr int64_t kMostWeight = 1'000'000;

// One weight per rank of an axis, 0 to kMostWeight, of which one at least is above 0. Shares are
// equal if their weights are.
using Share = std::vector<int64_t>;

// How many of the first `seats` each rank gets, by Sainte-Laguë's divisors: each seat goes to the
// rank with the largest weight / (2 x its seats so far + 1), of those that are equal to the first.
// So more seats never take one from a rank.
std::vector<int64_t> seats_of(const Share& share, int64_t seats);

// Where the ranks' parts of the elements [start, start + extent) begin, counted from `start`, and
// the extent: a value per rank and one more. The parts are the seats from `start` on, so that those
// of the microbatches of a batch add up to those of the batch.
std::vector<int64_t> offsets_of(const Share& share, int64_t extent, int64_t start = 0);

}  // namespace hidup
