// From one layout of a tensor to another.
//
// A reshard leads from any layout to any other, between the ranks of one share and those of
// another by a move or an all-to-all. On several axes there are several routes (routes.h).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sharding/placement.h"

namespace hidup {

// One change on one axis, from what to what. Each is done by the ranks that have anything of
// either; %a and %b are shares, and "in b" says that a's ranks are among those of b.
enum class ReshardKind {
  all_gather,      // S(d)%a -> R%b, a in b
  broadcast,       // S(d)@c or R@c -> R%b, from the axis's rank c in b
  all_reduce,      // P%a -> R%a
  reduce_scatter,  // P%a -> S(d)%b, b in a
  all_to_all,      // S(i)%a -> S(j)%b
  move,            // R%a -> R%b: a rank that has nothing gets all from one that has it
  slice,           // R%a -> S(d)%b or R%b, b in a: each rank keeps its part: free
  place,           // S(d)%a or P%a, a in b, or R%a -> P%b: a summand is zero where the rank had
                   // nothing (R: but on the first rank of both): free
};
inline constexpr std::array kReshardKinds = {ReshardKind::all_gather, ReshardKind::broadcast,
                                             ReshardKind::all_reduce, ReshardKind::reduce_scatter,
                                             ReshardKind::all_to_all, ReshardKind::move,
                                             ReshardKind::slice,      ReshardKind::place};
std::string_view name_of(ReshardKind kind);
bool is_local(ReshardKind kind);  // no communication
// Whether several axes can do it together (ReshardStep::inner).
bool can_be_joint(ReshardKind kind);

struct ReshardStep {
  ReshardKind kind = ReshardKind::slice;
  size_t axis = 0;
  Layout to;  // after it
  // Further axes inside of `axis`, outermost first, that one collective changes together with it.
  // It is hierarchical: a sum or a scattered sum goes from the innermost axis out and a gather from
  // `axis` in, so that each axis carries only what the axes inside of it do not have in common. An
  // all-to-all goes along the inner axes first, so that what one rank sends to the ranks that
  // differ from another in their inner coordinates only is one message along `axis`.
  std::vector<size_t> inner = {};
  // With inner axes: it is one collective among all ranks of these axes instead.
  bool flat = false;

  bool operator==(const ReshardStep&) const = default;
};

// The steps, one axis each, in order; none if the layouts are equal. An axis whose shard lies
// inside that of an axis to be changed is gathered first and cut again last. What no one step does
// between two shares is done by several.
std::vector<ReshardStep> reshard_steps(const Layout& from, const Layout& to, const Mesh& mesh);

// The next step along an axis on which the layouts differ, or along one whose shard lies inside.
ReshardStep next_step(const Layout& from, const Layout& to, const Mesh& mesh, size_t axis);

// Whether all steps are local.
bool reshards_locally(const Layout& from, const Layout& to, const Mesh& mesh);

// Whether summands become totals where they are: all steps are all-reduces.
bool only_sums(const Layout& from, const Layout& to, const Mesh& mesh);

// The coordinates of the ranks that a step along the axis concerns, rising: those with a part
// before it or after it. Empty: all of the axis.
std::vector<int64_t> ranks_concerned(const Axis& axis, const Placement& from, const Placement& to);

// From which rank each rank of the axis gets a value that it moves from one share's ranks to
// another's; itself where it has it or gets nothing. The ranks that have it take turns.
std::vector<int64_t> move_sources(const Axis& axis, const Placement& from, const Placement& to);

}  // namespace hidup
