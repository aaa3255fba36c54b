// Profiles that nobody measured: from a machine's peak rates.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/profile.h"

namespace hidup {

struct LinkRates {
  double bandwidth = 0.0;  // bytes/s of a rank, in each direction
  double latency_s = 0.0;  // of an empty message
};

struct MachineRates {
  double flops = 0.0;             // flop/s of a rank
  double memory_bandwidth = 0.0;  // bytes/s of a rank
  std::vector<LinkRates> links;   // per axis of the mesh
};

// Products at the peak rate, everything else at that of the memory (the roofline model, Williams et
// al. 2009). Of n ranks along an axis, a rank sends (n - 1) / n of a collective's bytes, twice that
// for an all_reduce, all of them for a broadcast or a move; messages follow each other log2(n)
// deep, twice for an all_reduce, once for a move (Thakur et al. 2005). Nothing slows what runs
// beside it.
Profile roofline_profile(const Mesh& mesh, const MachineRates& rates);

// The cost model of HiDup (SoCC'22): flops over the device's rate; bytes over the bandwidth plus
// 0.1 ms for any collective; nothing for what is not a product. memory_bandwidth and the links'
// latencies are not used.
Profile published_profile(const Mesh& mesh, const MachineRates& rates);

// Multiplies the times of every operation and of every collective by factors of their own, evenly
// distributed between 1 - noise and 1 + noise. `noise`: from 0 to below 1.
void perturb(Profile& profile, double noise, uint64_t seed);

}  // namespace hidup
