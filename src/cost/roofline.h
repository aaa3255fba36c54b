// Profiles that are computed from a machine's peak rates instead of measured.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cost/profile.h"

namespace hidup {

struct LinkRates {
  double bandwidth = 0.0;       // bytes/s of a rank, in each direction
  double latency_s = 0.0;       // of an empty message
  int64_t per_host = 1;         // the number of consecutive ranks of the axis on one host
  double host_bandwidth = 0.0;  // bytes/s of its link, each way; unused for per_host 1
};

struct MachineRates {
  double flops = 0.0;        // flop/s of a rank
  double flops_16bit = 0.0;  // flop/s of a rank in bf16 and fp16; 0: as flops
  // The share of these rates that products reach, by type and rising flops; 1 without rows.
  std::map<DType, std::vector<ShareOfRate>> efficiency;
  double memory_bandwidth = 0.0;  // bytes/s of a rank
  std::vector<LinkRates> links;   // one per axis of the mesh
};

// The number of times that a rank sends the bytes of a collective over its link, and the number of
// messages that follow each other.
struct MessageVolume {
  double bytes = 1.0;
  double depth = 1.0;
};
// Returns the volume of a collective over `ranks` ranks, at least two; see roofline_profile().
MessageVolume volume_of(Opcode opcode, int64_t ranks);

// Returns a profile by the roofline model (Williams et al. 2009): products take the share of their
// type's rate that their size reaches, and everything else runs at the rate of memory. Among n
// ranks along an axis, a rank sends (n - 1) / n of a collective's bytes, twice that for an
// all_reduce, and all bytes for a broadcast or a move. log2(n) messages follow each other, twice
// that for an all_reduce, one for a move (Thakur et al. 2005). Communication does not slow
// computation.
//
// Where the n ranks are on several hosts, N = per_host on each, the rank's link and the host's link
// work at once, and the longer time counts. All collectives but two are rings or trees of
// consecutive ranks: one rank of a host sends to another host, so the host's link carries the bytes
// that a rank sends, once in each direction. In an all_to_all, N ranks send (n - N) / n of their
// bytes over the host's link, and (N - 1) / n over their own. In a move, all N ranks send over the
// host's link in the worst case. Where all ranks are on one host, its link carries nothing.
Profile roofline_profile(const Mesh& mesh, const MachineRates& rates);

// Returns a profile by the cost model of HiDup (SoCC'22): flops over the device's rate; bytes over
// the bandwidth plus 0.1 ms for any collective; no time for other operations. memory_bandwidth and
// the links' latencies are unused. The slower of a rank's and a host's link counts.
Profile published_profile(const Mesh& mesh, const MachineRates& rates);

// Multiplies the times of every operation and every collective by a random factor of its own,
// uniform between 1 - noise and 1 + noise. `noise`: from 0 to below 1.
void perturb(Profile& profile, double noise, uint64_t seed);

}  // namespace hidup
