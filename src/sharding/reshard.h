// From one layout of a tensor to another.
#pragma once

#include <string_view>
#include <vector>

#include "sharding/placement.h"

namespace hidup {

// One change on one axis, from what to what:
enum class ReshardKind {
  all_gather,      // S(d) -> R
  broadcast,       // S(d)@c -> R, from the axis's rank c
  all_reduce,      // P -> R
  reduce_scatter,  // P -> S(d)
  all_to_all,      // S(i) -> S(j)
  slice,           // R -> S(d), each rank keeps its part: free
  place,           // R or S(d) -> P, a summand is zero where the rank had nothing (R: but on the
                   // first rank): free
};
std::string_view name_of(ReshardKind kind);
bool is_local(ReshardKind kind);  // no communication

struct ReshardStep {
  ReshardKind kind = ReshardKind::slice;
  size_t axis = 0;
  Layout to;  // after it
};

// The steps, one axis each, in order; none if the layouts are equal. An axis whose shard lies
// inside that of an axis to be changed is gathered first and cut again last.
std::vector<ReshardStep> reshard_steps(const Layout& from, const Layout& to);

// Whether all steps are local.
bool reshards_locally(const Layout& from, const Layout& to);

}  // namespace hidup
