#include "sharding/reshard.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace hidup {
namespace {

using Ranks = std::vector<int64_t>;

// The next change of a placement on an axis, towards another placement.
struct Change {
  ReshardKind kind;
  Placement to;
};

// Finds the next change from the ranks that have a part now and those that shall have one.
class NextChange {
 public:
  NextChange(const Axis& axis, const Placement& from, const Placement& to)
      : axis_(axis), from_(from), to_(to), now_(axis, from), then_(axis, to) {}

  Change next() const {
    if (from_.is_partial() && !now_.is_one()) {  // a single summand is the sum
      return to_.is_replicate() ? summed() : to_.is_shard() ? scattered() : placed();
    }
    if (from_.is_shard()) {
      return to_.is_replicate() ? gathered() : to_.is_shard() ? exchanged() : placed();
    }
    return to_.is_replicate() ? moved() : to_.is_shard() ? cut() : placed();
  }

 private:
  // The ranks that have a part.
  struct Holders {
    Holders(const Axis& axis, const Placement& placement)
        : share(support_of(axis, placement.share)),
          all(share.is_equal()),
          ranks(all ? Ranks{} : ranks_with(axis, share)) {}
    bool is_one() const { return share.is_one_rank(); }
    bool are_in(const Holders& others) const {
      return others.all || share == others.share ||
             (!all && std::ranges::includes(others.ranks, ranks));
    }
    bool meet(const Holders& others) const {
      return all || others.all || std::ranges::any_of(ranks, [&](int64_t rank) {
               return std::ranges::count(others.ranks, rank) > 0;
             });
    }

    ShareNumber share;
    bool all;
    Ranks ranks;  // empty if all ranks have a part
  };

  Change summed() const {
    if (now_.are_in(then_) && now_.share != then_.share) {
      return {ReshardKind::place, Placement::partial(then_.share)};
    }
    return {ReshardKind::all_reduce, Placement::replicate(now_.share)};
  }
  Change scattered() const {
    return then_.are_in(now_) ? Change{ReshardKind::reduce_scatter, to_}
                              : Change{ReshardKind::place, Placement::partial()};
  }
  Change gathered() const {
    if (now_.is_one()) {
      return moved();
    }
    return now_.are_in(then_)
               ? Change{ReshardKind::all_gather, to_}
               : Change{ReshardKind::all_to_all, Placement::shard(from_.dim, then_.share)};
  }
  Change exchanged() const {
    const bool stays = now_.is_one() && now_.share == then_.share;
    return {stays ? ReshardKind::slice : ReshardKind::all_to_all, to_};
  }
  Change moved() const {
    if (then_.are_in(now_)) {
      return {ReshardKind::slice, to_};
    }
    const bool from_one = now_.is_one() && now_.are_in(then_);
    return {from_one ? ReshardKind::broadcast : ReshardKind::move, to_};
  }
  Change cut() const {
    return then_.are_in(now_) ? Change{ReshardKind::slice, to_}
                              : Change{ReshardKind::slice, Placement::shard(to_.dim, now_.share)};
  }
  Change placed() const {
    if (from_.is_replicate() ? now_.meet(then_) : now_.are_in(then_)) {
      return {ReshardKind::place, to_};
    }
    return from_.is_shard()
               ? Change{ReshardKind::all_to_all, Placement::shard(from_.dim, then_.share)}
           : from_.is_replicate() || now_.is_one()
               ? Change{ReshardKind::move, Placement::replicate(then_.share)}
               : Change{ReshardKind::all_reduce, Placement::replicate(now_.share)};
  }

  const Axis& axis_;
  const Placement& from_;
  const Placement& to_;
  Holders now_, then_;
};

bool cuts(const Placement& placement, const Placement& dim_of) {
  return placement.is_shard() && dim_of.is_shard() && placement.dim == dim_of.dim;
}

}  // namespace

std::string_view name_of(ReshardKind kind) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "all_gather", "broadcast", "all_reduce", "reduce_scatter",
      "all_to_all", "move",      "slice",      "place"};
  return kNames.at(static_cast<size_t>(kind));
}

bool is_local(ReshardKind kind) {
  return kind == ReshardKind::slice || kind == ReshardKind::place;
}

bool can_be_joint(ReshardKind kind) {
  return kind == ReshardKind::all_reduce || kind == ReshardKind::all_gather ||
         kind == ReshardKind::reduce_scatter || kind == ReshardKind::all_to_all;
}

ReshardStep next_step(const Layout& from, const Layout& to, const Mesh& mesh, size_t axis) {
  size_t inner = from.size() - 1;  // the innermost axis that cuts the same dimension
  while (inner > axis && !cuts(from[inner], from[axis]) && !cuts(from[inner], to[axis])) {
    --inner;
  }
  const Placement wanted =
      inner == axis ? to[axis] : Placement::replicate(support_of(mesh[inner], from[inner].share));
  const Change change = NextChange(mesh[inner], from[inner], wanted).next();
  ReshardStep step{.kind = change.kind, .axis = inner, .to = from};
  step.to[inner] = change.to;
  return step;
}

std::vector<ReshardStep> reshard_steps(const Layout& from, const Layout& to, const Mesh& mesh) {
  std::vector<ReshardStep> steps;
  Layout now = from;
  while (now != to) {
    const auto axis = static_cast<size_t>(std::ranges::mismatch(now, to).in1 - now.begin());
    steps.push_back(next_step(now, to, mesh, axis));
    now = steps.back().to;
  }
  return steps;
}

bool reshards_locally(const Layout& from, const Layout& to, const Mesh& mesh) {
  return std::ranges::all_of(reshard_steps(from, to, mesh),
                             [](const ReshardStep& step) { return is_local(step.kind); });
}

bool only_sums(const Layout& from, const Layout& to, const Mesh& mesh) {
  return std::ranges::all_of(reshard_steps(from, to, mesh), [](const ReshardStep& step) {
    return step.kind == ReshardKind::all_reduce;
  });
}

std::vector<int64_t> ranks_concerned(const Axis& axis, const Placement& from, const Placement& to) {
  if (from.share.is_equal() || to.share.is_equal()) {
    return {};
  }
  Ranks ranks;
  std::ranges::set_union(ranks_with(axis, from.share), ranks_with(axis, to.share),
                         std::back_inserter(ranks));
  return static_cast<int64_t>(ranks.size()) == axis.size ? Ranks{} : ranks;
}

std::vector<int64_t> move_sources(const Axis& axis, const Placement& from, const Placement& to) {
  const Ranks have = ranks_with(axis, from.share);
  std::vector<int64_t> sources;
  size_t turn = 0;
  for (int64_t rank = 0; rank < axis.size; ++rank) {
    const bool gets = includes(axis, to.share, rank) && !includes(axis, from.share, rank);
    sources.push_back(gets ? have[turn++ % have.size()] : rank);
  }
  return sources;
}

}  // namespace hidup
