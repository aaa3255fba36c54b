// The order of ranks on the mesh (cluster.order).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sharding/placement.h"

namespace hidup {

// The place of a rank among the machines.
struct RankSite {
  std::string host;
  std::string switches;  // SLURM_TOPOLOGY_ADDR, "top.leaf.host"; empty: unknown
  size_t device = 0;     // its class of devices
};

// The order that suits the mesh best.
struct RankOrder {
  std::vector<int> ranks;  // ranks[n]: the present number of the one that gets number n
  std::string reason;      // "ranks of a host are neighbours along gpu"; empty: no change
};

// Puts ranks with devices of one class next to each other, among them those below one switch, and
// among them those of one host, and numbers them along the axes of the mesh, the fastest (last) one
// first. Keeps the present order unless fewer neighbours along the fastest axis are on different
// hosts, or as few, and fewer below different switches or of different classes, or as few, and
// likewise along the slower axes. Rank 0 keeps its number. `sites`: of every rank.
RankOrder order_of_ranks(const std::vector<RankSite>& sites, const Mesh& mesh);

// Returns a line for people.
std::string describe(const RankOrder& order);

}  // namespace hidup
