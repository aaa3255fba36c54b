#include "sharding/reshard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace hidup {
namespace {

const Placement kR = Placement::replicate();
const Placement kP = Placement::partial();
const Placement kFirst = Placement::on_first_rank();

Placement cut(int dim) {
  return Placement::shard(dim);
}

// Returns a mesh without shares.
Mesh mesh_for(const Layout& layout) {
  return Mesh(layout.size(), Axis{.name = "axis", .size = 3});
}

// Returns kind and axis of every step, with the layout after it: "all_gather 1: S(0) R; ...".
std::string steps_of(const Layout& from, const Layout& to, const Mesh& mesh) {
  std::string text;
  for (const ReshardStep& step : reshard_steps(from, to, mesh)) {
    text += (text.empty() ? "" : "; ") + std::string(name_of(step.kind)) + " " +
            std::to_string(step.axis) + ": " + to_string(step.to);
  }
  return text;
}
std::string steps_of(const Layout& from, const Layout& to) {
  return steps_of(from, to, mesh_for(from));
}
bool reshards_locally(const Layout& from, const Layout& to) {
  return reshards_locally(from, to, mesh_for(from));
}

TEST(ReshardSteps, OfEveryKind) {
  EXPECT_EQ(steps_of({kR}, {kR}), "");
  EXPECT_EQ(steps_of({kP}, {kP}), "");
  EXPECT_EQ(steps_of({cut(1)}, {kR}), "all_gather 0: R");
  EXPECT_EQ(steps_of({kFirst}, {kR}), "broadcast 0: R");
  EXPECT_EQ(steps_of({kP}, {kR}), "all_reduce 0: R");
  EXPECT_EQ(steps_of({kP}, {cut(1)}), "reduce_scatter 0: S(1)");
  EXPECT_EQ(steps_of({kP}, {kFirst}), "reduce_scatter 0: S(0)@0");
  EXPECT_EQ(steps_of({cut(0)}, {cut(2)}), "all_to_all 0: S(2)");
  EXPECT_EQ(steps_of({kFirst}, {cut(0)}), "all_to_all 0: S(0)");
  EXPECT_EQ(steps_of({cut(0)}, {kFirst}), "all_to_all 0: S(0)@0");
  EXPECT_EQ(steps_of({kR}, {cut(1)}), "slice 0: S(1)");
  EXPECT_EQ(steps_of({kR}, {kFirst}), "slice 0: S(0)@0");
  EXPECT_EQ(steps_of({kR}, {kP}), "place 0: P");
  EXPECT_EQ(steps_of({cut(0)}, {kP}), "place 0: P");
}

TEST(ReshardSteps, OneAxisAtATime) {
  EXPECT_EQ(steps_of({cut(0), kP}, {kR, cut(1)}), "all_gather 0: R P; reduce_scatter 1: R S(1)");
  EXPECT_EQ(steps_of({kP, kP}, {kR, kR}), "all_reduce 0: R P; all_reduce 1: R R");
}

// The inner axis cuts the outer one's part: its parts fit together only if they are parts of one
// piece.
TEST(ReshardSteps, TheInnerShardGoesFirstAndComesBackLast) {
  EXPECT_EQ(steps_of({cut(0), cut(0)}, {kR, cut(0)}),
            "all_gather 1: S(0) R; all_gather 0: R R; slice 1: R S(0)");
  EXPECT_EQ(steps_of({cut(0), cut(0)}, {cut(1), cut(0)}),
            "all_gather 1: S(0) R; all_to_all 0: S(1) R; slice 1: S(1) S(0)");
  EXPECT_EQ(steps_of({kR, cut(0)}, {cut(0), cut(0)}),
            "all_gather 1: R R; slice 0: S(0) R; slice 1: S(0) S(0)");
  EXPECT_EQ(steps_of({kP, cut(0)}, {cut(0), cut(0)}),
            "all_gather 1: P R; reduce_scatter 0: S(0) R; slice 1: S(0) S(0)");
  EXPECT_EQ(steps_of({cut(0), cut(0)}, {kFirst, cut(0)}),
            "all_gather 1: S(0) R; all_to_all 0: S(0)@0 R; slice 1: S(0)@0 S(0)");
  // The outer placement stays and needs no step.
  EXPECT_EQ(steps_of({cut(0), cut(0)}, {cut(0), kR}), "all_gather 1: S(0) R");
  // A cut of another dimension does not interfere.
  EXPECT_EQ(steps_of({cut(0), cut(1)}, {kR, cut(1)}), "all_gather 0: R S(1)");
}

TEST(ReshardSteps, LocalOnes) {
  EXPECT_TRUE(reshards_locally({kR, kR}, {kR, kR}));
  EXPECT_TRUE(reshards_locally({kR, cut(0)}, {cut(1), cut(0)}));
  EXPECT_TRUE(reshards_locally({kR, kR}, {kP, kFirst}));
  EXPECT_FALSE(reshards_locally({kR, cut(0)}, {cut(0), cut(0)}));  // the inner cut interferes
  EXPECT_FALSE(reshards_locally({kP, kR}, {kR, kR}));
  EXPECT_FALSE(reshards_locally({kFirst, kR}, {kR, kR}));
}

// Shares of four ranks: %1 has the ranks 0 and 1, %2 has 1 and 2, %3 has 0, 1 and 2.
TEST(ReshardSteps, BetweenShares) {
  const Mesh mesh = {{.name = "ranks", .size = 4, .shares = {{1, 2}, {0, 1, 1}, {1, 1, 1}}}};
  Mesh filled = mesh;
  for (Share& share : filled[0].shares) {
    share.resize(4, 0);
  }
  const auto steps = [&](const std::string& from, const std::string& to) {
    return steps_of({*parse_placement(from)}, {*parse_placement(to)}, filled);
  };
  EXPECT_EQ(steps("R%1", "R"), "move 0: R");
  EXPECT_EQ(steps("R%1", "R%2"), "move 0: R%2");
  EXPECT_EQ(steps("R@3", "R%2"), "move 0: R%2");
  EXPECT_EQ(steps("R@1", "R%2"), "broadcast 0: R%2");
  EXPECT_EQ(steps("R", "R%1"), "slice 0: R%1");
  EXPECT_EQ(steps("R@1", "S(0)%2"), "slice 0: S(0)@1; all_to_all 0: S(0)%2");
  EXPECT_EQ(steps("R%3", "S(0)%2"), "slice 0: S(0)%2");
  EXPECT_EQ(steps("S(0)%1", "R%3"), "all_gather 0: R%3");
  EXPECT_EQ(steps("S(0)%1", "R%2"), "all_to_all 0: S(0)%2; all_gather 0: R%2");
  EXPECT_EQ(steps("S(0)%1", "R@3"), "all_to_all 0: S(0)@3; slice 0: R@3");
  EXPECT_EQ(steps("S(0)@2", "S(1)@2"), "slice 0: S(1)@2");
  EXPECT_EQ(steps("S(0)%1", "S(0)%2"), "all_to_all 0: S(0)%2");
  EXPECT_EQ(steps("P%1", "R%1"), "all_reduce 0: R%1");
  EXPECT_EQ(steps("P%1", "R"), "place 0: P; all_reduce 0: R");
  EXPECT_EQ(steps("P%1", "R%2"), "all_reduce 0: R%1; move 0: R%2");
  EXPECT_EQ(steps("P@1", "R@1"), "slice 0: R@1");
  EXPECT_EQ(steps("P@1", "R"), "broadcast 0: R");
  EXPECT_EQ(steps("P%3", "S(0)%2"), "reduce_scatter 0: S(0)%2");
  EXPECT_EQ(steps("P%1", "S(0)%2"), "place 0: P; reduce_scatter 0: S(0)%2");
  EXPECT_EQ(steps("P%1", "P%3"), "place 0: P%3");
  EXPECT_EQ(steps("P%1", "P%2"), "all_reduce 0: R%1; place 0: P%2");
  EXPECT_EQ(steps("R%1", "P%2"), "place 0: P%2");
  EXPECT_EQ(steps("R@3", "P%2"), "move 0: R%2; place 0: P%2");
  EXPECT_EQ(steps("S(0)%1", "P%2"), "all_to_all 0: S(0)%2; place 0: P%2");
}

TEST(Moves, TakeTurnsAtTheRanksThatHaveIt) {
  const Axis axis = {.name = "ranks", .size = 5, .shares = {{1, 0, 1, 0, 0}, {0, 0, 1, 1, 1}}};
  const auto from = [](int number) { return Placement::replicate(ShareNumber::of(number)); };
  EXPECT_EQ(move_sources(axis, from(1), Placement::replicate()),
            (std::vector<int64_t>{0, 0, 2, 2, 0}));
  EXPECT_EQ(move_sources(axis, from(1), from(2)), (std::vector<int64_t>{0, 1, 2, 0, 2}));
  EXPECT_EQ(ranks_concerned(axis, from(1), from(2)), (std::vector<int64_t>{0, 2, 3, 4}));
  EXPECT_EQ(ranks_concerned(axis, from(1), Placement::partial()), std::vector<int64_t>{});
}

// Returns true if the header allows the change.
bool is_legal(ReshardKind kind, const Axis& axis, const Placement& from, const Placement& to) {
  const std::vector<int64_t> before = ranks_with(axis, from.share);
  const std::vector<int64_t> after = ranks_with(axis, to.share);
  const bool from_one = before.size() == 1;
  const bool grows = std::ranges::includes(after, before);
  const bool shrinks = std::ranges::includes(before, after);
  const bool whole = from.is_replicate() || from_one;
  switch (kind) {
    case ReshardKind::all_gather:
      return from.is_shard() && to.is_replicate() && grows;
    case ReshardKind::broadcast:
      return from_one && to.is_replicate() && grows;
    case ReshardKind::all_reduce:
      return from.is_partial() && to.is_replicate() && before == after;
    case ReshardKind::reduce_scatter:
      return from.is_partial() && to.is_shard() && shrinks;
    case ReshardKind::all_to_all:
      return from.is_shard() && to.is_shard();
    case ReshardKind::move:
      return whole && to.is_replicate() && !shrinks;
    case ReshardKind::slice:
      return whole && !to.is_partial() && shrinks;
    case ReshardKind::place: {
      std::vector<int64_t> both;
      std::ranges::set_intersection(before, after, std::back_inserter(both));
      return to.is_partial() && (from.is_replicate() ? !both.empty() : grows);
    }
  }
  return false;
}

// Returns the elements that the ranks of a group have together.
std::set<int64_t> elements_of(const Layout& layout, const Mesh& mesh,
                              const std::vector<int64_t>& ranks) {
  const Shape shape = {5, 4, 3};
  std::set<int64_t> all;
  for (const int64_t rank : ranks) {
    const Region region = region_of(shape, layout, mesh, rank);
    for (int64_t i = 0; i < region.elements(); ++i) {
      all.insert(region.global_index(i));
    }
  }
  return all;
}

// Checks that the ranks of each group along the step's axis, which alone exchange data, together
// have all elements that they need.
void expect_possible(const Layout& from, const ReshardStep& step, const Mesh& mesh) {
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (axis != step.axis) {
      EXPECT_EQ(from[axis], step.to[axis]);
    }
  }
  EXPECT_TRUE(is_legal(step.kind, mesh[step.axis], from[step.axis], step.to[step.axis]));
  for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
    const std::vector<int64_t> group = group_of(mesh, rank, step.axis);
    if (step.kind != ReshardKind::place) {
      EXPECT_EQ(elements_of(from, mesh, group), elements_of(step.to, mesh, group));
    }
  }
}

std::vector<Placement> placements_on(const Axis& axis) {
  std::vector<Placement> placements = {kFirst, Placement::shard(1, ShareNumber::only(1))};
  for (int dim = 0; dim < 3; ++dim) {
    placements.push_back(cut(dim));
  }
  for (const ShareNumber share :
       {ShareNumber(), ShareNumber::only(1), ShareNumber::of(1), ShareNumber::of(2)}) {
    for (const Placement& placement : {kR, kP, cut(0)}) {
      placements.push_back(with_share(placement, axis, share));
    }
  }
  return placements;
}

std::vector<Layout> all_layouts(const Axis& outer_axis, const Axis& inner_axis) {
  std::vector<Layout> layouts;
  for (const Placement& outer : placements_on(outer_axis)) {
    for (const Placement& inner : placements_on(inner_axis)) {
      layouts.push_back({outer, inner});
    }
  }
  return layouts;
}

TEST(ReshardSteps, LeadFromEveryLayoutToEveryOther) {
  const Mesh mesh = {{.name = "node", .size = 2, .shares = {{3, 1}, {1, 0}}},
                     {.name = "core", .size = 4, .shares = {{2, 0, 1, 0}, {0, 1, 1, 2}}}};
  const std::vector<Layout> layouts = all_layouts(mesh[0], mesh[1]);
  for (size_t f = 0; f < layouts.size(); f += 5) {  // and all layouts that it may become
    for (const Layout& to : layouts) {
      const Layout& from = layouts[f];
      SCOPED_TRACE(to_string(from) + " to " + steps_of(from, to, mesh));
      Layout now = from;
      const std::vector<ReshardStep> steps = reshard_steps(from, to, mesh);
      EXPECT_LE(steps.size(), 7U);  // three per axis, and the inner one once more
      for (const ReshardStep& step : steps) {
        expect_possible(now, step, mesh);
        now = step.to;
      }
      EXPECT_EQ(now, to);
    }
  }
}

// Three axes cut one dimension: the loop ends with the right layout.
TEST(ReshardSteps, OnThreeAxes) {
  const Mesh mesh = {{"rack", 2},
                     {.name = "node", .size = 2, .shares = {{0, 1}, {1, 1}}},
                     {.name = "core", .size = 3, .shares = {{1, 3, 0}, {0, 1, 1}}}};
  const std::vector<Layout> pairs = all_layouts(mesh[1], mesh[2]);
  for (const Placement& outer : {kR, kP, cut(0)}) {
    for (size_t f = 0; f < pairs.size(); f += 23) {
      for (const Layout& to : pairs) {
        Layout now = {outer, pairs[f][0], pairs[f][1]};
        const Layout end = {cut(1), to[0], to[1]};
        for (const ReshardStep& step : reshard_steps(now, end, mesh)) {
          expect_possible(now, step, mesh);
          now = step.to;
        }
        EXPECT_EQ(now, end);
      }
    }
  }
}

TEST(ReshardSteps, AreNamed) {
  EXPECT_EQ(name_of(ReshardKind::place), "place");
  EXPECT_EQ(name_of(ReshardKind::all_gather), "all_gather");
  EXPECT_TRUE(is_local(ReshardKind::slice) && is_local(ReshardKind::place));
  EXPECT_FALSE(is_local(ReshardKind::broadcast) || is_local(ReshardKind::all_to_all));
}

}  // namespace
}  // namespace hidup
