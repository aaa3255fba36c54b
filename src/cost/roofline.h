// Profiles that nobody measured: from a machine's peak rates.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cost/profile.h"

namespace hidup {

struct LinkRates {
  double bandwidth = 0.0;       // bytes/s of a rank, in each direction
  double latency_s = 0.0;       // of an empty message
  int64_t per_host = 1;         // so many consecutive ranks of the axis are on one host, and
  double host_bandwidth = 0.0;  // bytes/s of its link, in each direction; unused where that is 1
};

struct MachineRates {
  double flops = 0.0;        // flop/s of a rank
  double flops_16bit = 0.0;  // flop/s of bf16 and fp16; 0: flops
  // What products reach of these, by type and rising flops; all of it where a type has no row.
  std::map<DType, std::vector<ShareOfRate>> efficiency;
  double memory_bandwidth = 0.0;  // bytes/s of a rank
  std::vector<LinkRates> links;   // per axis of the mesh
};

// How often a rank sends the bytes of a collective over its link, and how many messages follow each
// other.
struct MessageVolume {
  double bytes = 1.0;
  double depth = 1.0;
};
// Of a collective over so many ranks, at least two: see roofline_profile().
MessageVolume volume_of(Opcode opcode, int64_t ranks);

// Products at the share of their type's rate that their size reaches, everything else at that of
// the memory (the roofline model, Williams et al. 2009). Of n ranks along an axis, a rank sends (n
// - 1) / n of a collective's bytes, twice that for an all_reduce, all of them for a broadcast or a
// move; messages follow each other log2(n) deep, twice for an all_reduce, once for a move (Thakur
// et al. 2005). Nothing slows what runs beside it.
//
// Where the n ranks are on several hosts, N = per_host on each, both links take their time at once
// and the longer one counts. All collectives but two are rings or trees of consecutive ranks: of
// them one rank of a host sends to another host, so the host's link carries what a rank sends, once
// in each direction. All_to_all: N ranks send (n - N) / n of their bytes over the host's link, and
// (N - 1) / n of them over their own. Move: in the worst case all N ranks send over the host's link
// at once. Where all ranks are on one host, its link carries nothing.
Profile roofline_profile(const Mesh& mesh, const MachineRates& rates);

// The cost model of HiDup (SoCC'22): flops over the device's rate; bytes over the bandwidth plus
// 0.1 ms for any collective; nothing for what is not a product. memory_bandwidth and the links'
// latencies are not used. Of a rank's and a host's link the slower one counts.
Profile published_profile(const Mesh& mesh, const MachineRates& rates);

// Multiplies the times of every operation and of every collective by factors of their own, evenly
// distributed between 1 - noise and 1 + noise. `noise`: from 0 to below 1.
void perturb(Profile& profile, double noise, uint64_t seed);

}  // namespace hidup
