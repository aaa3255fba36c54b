// Steps from one layout of a tensor to another.
//
// A reshard leads from any layout to any other, between the ranks of one share and those of
// another by a move or an all-to-all. On several axes there are several routes (routes.h).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sharding/placement.h"

namespace hidup {

// A change of the placement on one axis, by the ranks that have a part before or after it. %a and
// %b are shares; "a in b" means that a's ranks are among those of b.
enum class ReshardKind {
  all_gather,      // S(d)%a -> R%b, a in b
  broadcast,       // S(d)@c or R@c -> R%b, from the axis's rank c in b
  all_reduce,      // P%a -> R%a
  reduce_scatter,  // P%a -> S(d)%b, b in a
  all_to_all,      // S(i)%a -> S(j)%b
  move,            // R%a -> R%b: a rank that has nothing gets all from one that has it
  slice,           // R%a -> S(d)%b or R%b, b in a: each rank keeps its part, without messages
  place,           // S(d)%a or P%a, a in b, or R%a -> P%b, without messages: summands are zero
                   // where the rank had nothing (R: on all but the first rank of both)
};
inline constexpr std::array kReshardKinds = {ReshardKind::all_gather, ReshardKind::broadcast,
                                             ReshardKind::all_reduce, ReshardKind::reduce_scatter,
                                             ReshardKind::all_to_all, ReshardKind::move,
                                             ReshardKind::slice,      ReshardKind::place};
std::string_view name_of(ReshardKind kind);
bool is_local(ReshardKind kind);  // true: no communication
// Returns true if several axes can change together (ReshardStep::inner).
bool can_be_joint(ReshardKind kind);

struct ReshardStep {
  ReshardKind kind = ReshardKind::slice;
  size_t axis = 0;
  Layout to;  // layout after the step
  // Further axes inside of `axis`, outermost first, that the same collective changes. It is
  // hierarchical: it sums from the innermost axis out and gathers from `axis` in, so that each axis
  // carries only data that the axes inside of it do not have in common. An all-to-all runs along
  // the inner axes first, so that along `axis` one message serves all ranks that differ only in
  // their inner coordinates.
  std::vector<size_t> inner = {};
  // With inner axes, true means one collective among all ranks of these axes instead.
  bool flat = false;

  bool operator==(const ReshardStep&) const = default;
};

// Returns the steps in order, one axis each; none if the layouts are equal. An axis whose shard
// lies inside that of an axis to be changed is gathered first and cut again last. A change between
// two shares may take several steps.
std::vector<ReshardStep> reshard_steps(const Layout& from, const Layout& to, const Mesh& mesh);

// Returns the next step along this axis, where the layouts differ, or one whose shard lies inside.
ReshardStep next_step(const Layout& from, const Layout& to, const Mesh& mesh, size_t axis);

// Returns true if all steps are local.
bool reshards_locally(const Layout& from, const Layout& to, const Mesh& mesh);

// Returns true if all steps are all-reduces, so that summands become totals in place.
bool only_sums(const Layout& from, const Layout& to, const Mesh& mesh);

// Returns the coordinates, rising, of the axis's ranks with a part before or after a step; empty
// for all ranks of the axis.
std::vector<int64_t> ranks_concerned(const Axis& axis, const Placement& from, const Placement& to);

// Returns for each rank of the axis the rank that sends it a value which moves from one share's
// ranks to another's: itself where it has the value or gets nothing. The senders take turns.
std::vector<int64_t> move_sources(const Axis& axis, const Placement& from, const Placement& to);

}  // namespace hidup
