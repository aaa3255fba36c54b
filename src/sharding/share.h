// Shares of the ranks of an axis: parts need not be equal, and may be empty.
//
// Rules do not know shares: with_share() stamps them on the placements that a rule gives. A rank
// of weight 0 has nothing, of a replica or a summand either; support_of() (placement.h) is one
// number for all shares with the same such ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace hidup {

inline constexpr int64_t kMostWeight = 1'000'000;

// One weight per rank of an axis, 0 to kMostWeight, at least one above 0. Equal weights make equal
// shares.
using Share = std::vector<int64_t>;

// Returns the smallest weights in the same proportions.
Share reduced(Share share);

// Returns how many of the first `seats` each rank gets, by Sainte-Laguë's divisors: each seat goes
// to the rank with the largest weight / (2 x its seats so far + 1), among equal ones to the first.
// So more seats never take one from a rank.
std::vector<int64_t> seats_of(const Share& share, int64_t seats);

// Returns the starts of the ranks' parts of the elements [start, start + extent), counted from
// `start`, and the extent: a value per rank and one more. The parts are the seats from `start` on,
// so that the parts of microbatches add up to those of the batch.
std::vector<int64_t> offsets_of(const Share& share, int64_t extent, int64_t start = 0);

}  // namespace hidup
