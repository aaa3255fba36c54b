#include "sharding/reshard.h"

#include <algorithm>
#include <array>

namespace hidup {
namespace {

ReshardKind kind_of(const Placement& from, const Placement& to) {
  if (to.is_partial()) {
    return ReshardKind::place;
  }
  if (from.is_replicate()) {
    return ReshardKind::slice;
  }
  if (from.is_partial()) {
    return to.is_replicate() ? ReshardKind::all_reduce : ReshardKind::reduce_scatter;
  }
  if (to.is_shard()) {
    return ReshardKind::all_to_all;
  }
  return from.share.is_one_rank() ? ReshardKind::broadcast : ReshardKind::all_gather;
}

bool cuts(const Placement& placement, const Placement& dim_of) {
  return placement.is_shard() && dim_of.is_shard() && placement.dim == dim_of.dim;
}

}  // namespace

std::string_view name_of(ReshardKind kind) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "all_gather", "broadcast", "all_reduce", "reduce_scatter", "all_to_all", "slice", "place"};
  return kNames.at(static_cast<size_t>(kind));
}

bool is_local(ReshardKind kind) {
  return kind == ReshardKind::slice || kind == ReshardKind::place;
}

std::vector<ReshardStep> reshard_steps(const Layout& from, const Layout& to) {
  std::vector<ReshardStep> steps;
  Layout now = from;
  const auto change = [&](size_t axis, const Placement& placement) {
    const ReshardKind kind = kind_of(now[axis], placement);
    now[axis] = placement;
    steps.push_back({kind, axis, now});
  };
  while (now != to) {
    size_t axis = 0;  // the outermost that differs
    while (now[axis] == to[axis]) {
      ++axis;
    }
    size_t inner = now.size() - 1;  // the innermost that cuts the same dimension
    while (inner > axis && !cuts(now[inner], now[axis]) && !cuts(now[inner], to[axis])) {
      --inner;
    }
    change(inner, inner == axis ? to[axis] : Placement::replicate());
  }
  return steps;
}

bool reshards_locally(const Layout& from, const Layout& to) {
  return std::ranges::all_of(reshard_steps(from, to),
                             [](const ReshardStep& step) { return is_local(step.kind); });
}

}  // namespace hidup
