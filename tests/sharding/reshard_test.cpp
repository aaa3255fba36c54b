#include "sharding/reshard.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace hidup {
namespace {

const Placement kR = Placement::replicate();
const Placement kP = Placement::partial();
const Placement kFirst = Placement::on_first_rank();

Placement cut(int dim) {
  return Placement::shard(dim);
}

// "all_gather 1: S(0) R; slice 0: ..." : kind and axis of every step, and the layout after it.
std::string steps_of(const Layout& from, const Layout& to) {
  std::string text;
  for (const ReshardStep& step : reshard_steps(from, to)) {
    text += (text.empty() ? "" : "; ") + std::string(name_of(step.kind)) + " " +
            std::to_string(step.axis) + ": " + to_string(step.to);
  }
  return text;
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

// The inner axis cuts what the outer one leaves: its parts fit together only if they are parts of
// one piece.
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
  // The outer one stays: nothing to do for it.
  EXPECT_EQ(steps_of({cut(0), cut(0)}, {cut(0), kR}), "all_gather 1: S(0) R");
  // Another dimension is not in the way.
  EXPECT_EQ(steps_of({cut(0), cut(1)}, {kR, cut(1)}), "all_gather 0: R S(1)");
}

TEST(ReshardSteps, LocalOnes) {
  EXPECT_TRUE(reshards_locally({kR, kR}, {kR, kR}));
  EXPECT_TRUE(reshards_locally({kR, cut(0)}, {cut(1), cut(0)}));
  EXPECT_TRUE(reshards_locally({kR, kR}, {kP, kFirst}));
  EXPECT_FALSE(reshards_locally({kR, cut(0)}, {cut(0), cut(0)}));  // the inner one is in the way
  EXPECT_FALSE(reshards_locally({kP, kR}, {kR, kR}));
  EXPECT_FALSE(reshards_locally({kFirst, kR}, {kR, kR}));
}

// What the change of one placement is, as the header says it.
ReshardKind kind_of(const Placement& from, const Placement& to) {
  const std::map<std::pair<std::string, std::string>, ReshardKind> kinds = {
      {{"S", "R"}, ReshardKind::all_gather},     {{"@", "R"}, ReshardKind::broadcast},
      {{"P", "R"}, ReshardKind::all_reduce},     {{"P", "S"}, ReshardKind::reduce_scatter},
      {{"P", "@"}, ReshardKind::reduce_scatter}, {{"S", "S"}, ReshardKind::all_to_all},
      {{"S", "@"}, ReshardKind::all_to_all},     {{"@", "S"}, ReshardKind::all_to_all},
      {{"R", "S"}, ReshardKind::slice},          {{"R", "@"}, ReshardKind::slice},
      {{"@", "@"}, ReshardKind::all_to_all},     {{"R", "P"}, ReshardKind::place},
      {{"S", "P"}, ReshardKind::place},          {{"@", "P"}, ReshardKind::place}};
  const auto letter = [](const Placement& placement) {
    return placement.share.is_one_rank() ? std::string("@") : to_string(placement).substr(0, 1);
  };
  return kinds.at({letter(from), letter(to)});
}

// Elements that the ranks of a group have between them.
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

// A step exchanges data among the ranks of a group along its axis only: between them they must
// have what they need.
void expect_possible(const Layout& from, const ReshardStep& step, const Mesh& mesh) {
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (axis != step.axis) {
      EXPECT_EQ(from[axis], step.to[axis]);
    }
  }
  EXPECT_EQ(step.kind, kind_of(from[step.axis], step.to[step.axis]));
  for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
    const std::vector<int64_t> group = group_of(mesh, rank, step.axis);
    if (step.kind != ReshardKind::place) {
      EXPECT_EQ(elements_of(from, mesh, group), elements_of(step.to, mesh, group));
    }
  }
}

std::vector<Layout> all_layouts() {
  std::vector<Placement> placements = {kR, kP, kFirst, Placement::shard(1, ShareNumber::only(1)),
                                       Placement::shard(0, ShareNumber::of(1))};
  for (int dim = 0; dim < 3; ++dim) {
    placements.push_back(cut(dim));
  }
  std::vector<Layout> layouts;
  for (const Placement& outer : placements) {
    for (const Placement& inner : placements) {
      layouts.push_back({outer, inner});
    }
  }
  return layouts;
}

TEST(ReshardSteps, LeadFromEveryLayoutToEveryOther) {
  const Mesh mesh = {{.name = "node", .size = 2, .shares = {{3, 1}}},
                     {.name = "core", .size = 3, .shares = {{2, 0, 1}}}};
  const std::vector<Layout> layouts = all_layouts();
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      SCOPED_TRACE(steps_of(from, to));
      Layout now = from;
      const std::vector<ReshardStep> steps = reshard_steps(from, to);
      EXPECT_LE(steps.size(), 3U);  // two axes, and the inner one once more
      for (const ReshardStep& step : steps) {
        expect_possible(now, step, mesh);
        now = step.to;
      }
      EXPECT_EQ(now, to);
    }
  }
}

// Three axes that cut one dimension: the loop ends, and where it should.
TEST(ReshardSteps, OnThreeAxes) {
  const Mesh mesh = {{"rack", 2},
                     {.name = "node", .size = 2, .shares = {{0, 1}}},
                     {.name = "core", .size = 2, .shares = {{1, 3}}}};
  const std::vector<Layout> pairs = all_layouts();
  for (const Placement& outer : {kR, kP, cut(0)}) {
    for (const Layout& from : pairs) {
      for (const Layout& to : pairs) {
        Layout now = {outer, from[0], from[1]};
        const Layout end = {cut(1), to[0], to[1]};
        for (const ReshardStep& step : reshard_steps(now, end)) {
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
