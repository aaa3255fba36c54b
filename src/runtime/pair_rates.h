// Measures the links between pairs of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"

namespace hidup {

// Two ranks, first < second.
struct RankPair {
  int64_t first = 0;
  int64_t second = 0;

  bool operator==(const RankPair&) const = default;
};

// Returns all pairs of up to 64 ranks; of more, the pairs at distances 1, 2, 4, ...
std::vector<RankPair> pairs_of(int64_t ranks);

// Collective. Returns the bytes/s of messages from each rank of a pair to the other, one after the
// other, while all other ranks are quiet: those of the fastest of some exchanges, on all ranks.
// `group`: all ranks of `world`. Throws CollectiveError(out_of_memory).
std::vector<double> measure_pairs(Device& device, Communicator& world, Communicator& group,
                                  const std::vector<RankPair>& pairs);

}  // namespace hidup
