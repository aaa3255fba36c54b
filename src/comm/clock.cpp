#include "comm/clock.h"

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "device/device.h"

namespace hidup {

double run_start(Communicator& world, const std::string& host) {
  constexpr size_t kRounds = 15;
  std::vector<double> differences;  // this rank's clock minus rank 0's
  double start = 0.0;
  for (size_t round = 0; round < kRounds; ++round) {
    world.barrier();
    const double mine = monotonic_seconds();
    start = all_gather_value(world, mine).front();
    differences.push_back(mine - start);
  }
  std::ranges::nth_element(differences, differences.begin() + kRounds / 2);
  const bool same_clock = all_gather_value(world, hash_of(host)).front() == hash_of(host);
  return same_clock ? start : start + differences[kRounds / 2];
}

}  // namespace hidup
