#include "sharding/placement.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace hidup {
namespace {

TEST(BalancedOffsets, DifferByOneAtMost) {
  EXPECT_EQ(balanced_offsets(5, 2), (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(balanced_offsets(33278, 8).back(), 33278);
  EXPECT_EQ(balanced_offsets(2, 4), (std::vector<int64_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(balanced_offsets(0, 3), (std::vector<int64_t>{0, 0, 0, 0}));
  for (int64_t extent = 0; extent < 40; ++extent) {
    for (int64_t parts = 1; parts < 9; ++parts) {
      const std::vector<int64_t> offsets = balanced_offsets(extent, parts);
      for (size_t p = 1; p < offsets.size(); ++p) {
        const int64_t size = offsets[p] - offsets[p - 1];
        EXPECT_GE(size, extent / parts);
        EXPECT_LE(size, extent / parts + 1);
      }
    }
  }
}

// From part `first` on and around, parts get one more element each until none is left.
TEST(BalancedOffsets, GiveTheLargerPartsFromTheFirstOn) {
  EXPECT_EQ(balanced_offsets(5, 4, 3), (std::vector<int64_t>{0, 1, 2, 3, 5}));
  for (int64_t extent = 0; extent < 20; ++extent) {
    for (int64_t parts = 1; parts < 7; ++parts) {
      for (int64_t first = 0; first < 15; ++first) {
        std::vector<int64_t> sizes(static_cast<size_t>(parts), extent / parts);
        for (int64_t more = 0; more < extent % parts; ++more) {
          ++sizes[static_cast<size_t>((first + more) % parts)];
        }
        const std::vector<int64_t> offsets = balanced_offsets(extent, parts, first);
        for (size_t p = 0; p < sizes.size(); ++p) {
          EXPECT_EQ(offsets[p + 1] - offsets[p], sizes[p])
              << extent << " " << parts << " " << first;
        }
      }
    }
  }
}

// Every element of a sharded tensor is on exactly one rank.
TEST(RegionOf, CoversTheTensorOnce) {
  const Mesh mesh = {{"node", 2}, {"gpu", 3}};
  const Shape shape = {5, 7};
  const std::vector<Layout> layouts = {{Placement::shard(0), Placement::shard(0)},
                                       {Placement::shard(0), Placement::shard(1)},
                                       {Placement::shard(1), Placement::shard(1)}};
  for (const Layout& layout : layouts) {
    std::vector<int> seen(35, 0);
    for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
      const Region region = region_of(shape, layout, mesh, rank);
      for (int64_t i = 0; i < region.elements(); ++i) {
        ++seen[static_cast<size_t>(region.global_index(i))];
      }
    }
    EXPECT_EQ(seen, std::vector<int>(35, 1)) << to_string(layout);
  }
}

TEST(RegionOf, ReplicatedAndPartialAreWhole) {
  const Mesh mesh = {{"ranks", 3}};
  for (const Placement placement : {Placement::replicate(), Placement::partial()}) {
    EXPECT_EQ(shape_of(region_of({5, 7}, {placement}, mesh, 2)), (Shape{5, 7}));
  }
}

TEST(RegionOf, RefusesAMissingDimension) {
  EXPECT_THROW(region_of({5}, {Placement::shard(1)}, {{"ranks", 2}}, 0), Error);
  EXPECT_THROW(region_of({5}, {}, {{"ranks", 2}}, 0), Error);
}

// The first rank of the axis has the whole tensor, the others have nothing.
TEST(RegionOf, OnTheFirstRankOfAnAxis) {
  const Mesh mesh = {{"node", 2}, {"gpu", 3}};
  const Layout layout = {Placement::shard(0), Placement::on_first_rank()};
  EXPECT_EQ(shape_of(region_of({5, 7}, layout, mesh, 0)), (Shape{3, 7}));
  EXPECT_EQ(shape_of(region_of({5, 7}, layout, mesh, 3)), (Shape{2, 7}));
  EXPECT_EQ(region_of({5, 7}, layout, mesh, 3).start[0], 3);
  for (const int64_t rank : {1, 2, 4, 5}) {
    EXPECT_EQ(shape_of(region_of({5, 7}, layout, mesh, rank)), (Shape{0, 7})) << rank;
  }
  const Placement column = Placement::shard(1, ShareNumber::only(0));
  EXPECT_EQ(shape_of(region_of({5, 7}, {column, Placement::replicate()}, mesh, 2)), (Shape{5, 7}));
  EXPECT_EQ(shape_of(region_of({5, 7}, {column, Placement::replicate()}, mesh, 3)), (Shape{5, 0}));
}

TEST(RegionOf, PartsOfShares) {
  const Mesh mesh = {{.name = "node", .size = 2, .shares = {{1, 3}}},
                     {.name = "gpu", .size = 3, .shares = {{0, 1, 1}, {5, 3, 0}}}};
  const auto columns = [&](const Layout& layout) {
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
      const Region region = region_of({8, 2}, layout, mesh, rank);
      parts.emplace_back(region.start[0], region.extent[0]);
    }
    return parts;
  };
  using Parts = std::vector<std::pair<int64_t, int64_t>>;
  const Placement none = Placement::replicate();
  const auto share = [](int64_t number) { return Placement::shard(0, ShareNumber::of(number)); };
  EXPECT_EQ(columns({share(1), none}), (Parts{{0, 2}, {0, 2}, {0, 2}, {2, 6}, {2, 6}, {2, 6}}));
  EXPECT_EQ(columns({none, share(1)}), (Parts{{0, 0}, {0, 4}, {4, 4}, {0, 0}, {0, 4}, {4, 4}}));
  EXPECT_EQ(columns({none, share(2)}), (Parts{{0, 5}, {5, 3}, {8, 0}, {0, 5}, {5, 3}, {8, 0}}));
  // The outer axis cuts first; the inner one divides that part's seats.
  EXPECT_EQ(columns({share(1), share(2)}), (Parts{{0, 1}, {1, 1}, {2, 0}, {2, 4}, {6, 2}, {8, 0}}));
  const Placement last = Placement::shard(0, ShareNumber::only(2));
  EXPECT_EQ(columns({none, last}), (Parts{{0, 0}, {0, 0}, {0, 8}, {0, 0}, {0, 0}, {0, 8}}));
  EXPECT_THROW(columns({share(2), none}), Error);
  EXPECT_THROW(columns({Placement::shard(0, ShareNumber::only(2)), none}), Error);
}

TEST(Placements, PrintAndParse) {
  EXPECT_EQ(to_string(Placement::replicate()), "R");
  EXPECT_EQ(to_string(Placement::partial()), "P");
  EXPECT_EQ(to_string(Placement::shard(3)), "S(3)");
  EXPECT_EQ(to_string(Placement::on_first_rank()), "S(0)@0");
  EXPECT_EQ(to_string(Placement::shard(2, ShareNumber::of(3))), "S(2)%3");
  EXPECT_EQ(to_string(Layout{Placement::shard(1), Placement::replicate()}), "S(1) R");
  for (int dim = 0; dim < kMaxDims; ++dim) {
    for (const ShareNumber share : {ShareNumber(), ShareNumber::of(1), ShareNumber::of(12),
                                    ShareNumber::only(0), ShareNumber::only(31)}) {
      for (const Placement& placement :
           {Placement::shard(dim, share), Placement::replicate(share), Placement::partial(share)}) {
        EXPECT_EQ(parse_placement(to_string(placement)), placement);
      }
    }
  }
  EXPECT_EQ(parse_placement("R"), Placement::replicate());
  EXPECT_EQ(parse_placement("P"), Placement::partial());
}

TEST(Placements, OtherTextIsNone) {
  for (const char* text :
       {"",      "r",       "R ",      "S",     "S()",    "S(-1)",    "S(6)",     "S(0",
        "S(0)@", "S(0)@-1", "S(0)@00", "S(0)%", "S(0)%0", "S(0)%-1",  "S(0)%1@0", "S(0)@0@0",
        "%1",    "P@",      "R%0",     "S(00)", "S( 0)",  "Replicate"}) {
    EXPECT_FALSE(parse_placement(text).has_value()) << text;
  }
}

// %1 has all ranks, %2 and %3 the same two, %4 one.
const Axis kFourShares = {
    .name = "ranks", .size = 3, .shares = {{2, 1, 1}, {0, 5, 1}, {0, 1, 1}, {0, 0, 2}}};

TEST(Shares, ThatIncludeTheSameRanksHaveOneNumber) {
  const auto support = [](int number) {
    return to_string(support_of(kFourShares, ShareNumber::of(number)));
  };
  EXPECT_EQ(support(1), "");
  EXPECT_EQ(support(2), "%2");
  EXPECT_EQ(support(3), "%2");
  EXPECT_EQ(support(4), "@2");
  EXPECT_EQ(to_string(with_share(Placement::replicate(), kFourShares, ShareNumber::of(3))), "R%2");
  EXPECT_EQ(to_string(with_share(Placement::shard(1), kFourShares, ShareNumber::of(3))), "S(1)%3");
  EXPECT_EQ(ranks_with(kFourShares, ShareNumber::of(3)), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(ranks_with(kFourShares, ShareNumber::only(1)), (std::vector<int64_t>{1}));
}

TEST(Shares, EqualAmongThoseTheyInclude) {
  const Mesh mesh = with_equal_shares({{"node", 2}, kFourShares});
  EXPECT_EQ(mesh[1].shares, kFourShares.shares);  // %3 is equal among the ranks of %2
  EXPECT_EQ(to_string(equal_among(mesh[1], ShareNumber::of(2))), "%3");
  EXPECT_EQ(to_string(equal_among(mesh[1], ShareNumber::of(1))), "");
  EXPECT_EQ(to_string(equal_among(mesh[1], ShareNumber::of(4))), "@2");
  const Axis uneven = {.name = "ranks", .size = 3, .shares = {{0, 5, 1}}};
  EXPECT_EQ(with_equal_shares({uneven})[0].shares, (std::vector<Share>{{0, 5, 1}, {0, 1, 1}}));
}

TEST(Layouts, LieOnTheRanksThatTheirSharesInclude) {
  const Mesh mesh = {{"node", 2}, kFourShares};
  const Layout layout = {Placement::replicate(ShareNumber::only(1)),
                         Placement::partial(ShareNumber::of(2))};
  for (int64_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(lies_on(layout, mesh, rank), rank == 4 || rank == 5) << rank;
    EXPECT_EQ(region_of({3, 2}, layout, mesh, rank).elements(), rank >= 4 ? 6 : 0);
    EXPECT_EQ(region_of({}, layout, mesh, rank).elements(), rank >= 4 ? 1 : 0);
  }
}

TEST(Layouts, CoverWhatIsWholeOnFewerRanks) {
  const Mesh mesh = {kFourShares};
  const auto covers = [&](const char* held, const char* wanted) {
    return hidup::covers({*parse_placement(held)}, {*parse_placement(wanted)}, mesh);
  };
  EXPECT_TRUE(covers("R", "R%2"));
  EXPECT_TRUE(covers("R%2", "R@2"));
  EXPECT_TRUE(covers("P%2", "P%2"));
  EXPECT_FALSE(covers("R%2", "R"));
  EXPECT_FALSE(covers("R%2", "R@0"));
  EXPECT_FALSE(covers("P", "P%2"));
  EXPECT_FALSE(covers("R", "S(0)%2"));
}

TEST(GroupOf, DiffersAlongItsAxisOnly) {
  const Mesh mesh = {{"rack", 2}, {"node", 3}, {"gpu", 2}};
  // Rank 9 is at (1, 1, 1).
  EXPECT_EQ(group_of(mesh, 9, 0), (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(group_of(mesh, 9, 1), (std::vector<int64_t>{7, 9, 11}));
  EXPECT_EQ(group_of(mesh, 9, 2), (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(group_of({{"ranks", 4}}, 2, 0), (std::vector<int64_t>{0, 1, 2, 3}));
  for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      const std::vector<int64_t> group = group_of(mesh, rank, axis);
      for (size_t i = 0; i < group.size(); ++i) {
        std::vector<int64_t> coordinates = coordinates_of(mesh, rank);
        coordinates[axis] = static_cast<int64_t>(i);
        EXPECT_EQ(coordinates_of(mesh, group[i]), coordinates);
      }
    }
  }
}

TEST(Coordinates, AreRowMajor) {
  const Mesh mesh = {{"node", 2}, {"gpu", 4}};
  EXPECT_EQ(coordinates_of(mesh, 6), (std::vector<int64_t>{1, 2}));
}

// With neighbours along the outer axis, ranks are those of the other order, renumbered.
TEST(Coordinates, FollowTheNumberingOfRanks) {
  const Mesh mesh = {{"node", 2}, {"gpu", 3}};
  const Mesh other = {{.name = "node", .size = 2, .numbered = 1},
                      {.name = "gpu", .size = 3, .numbered = 0}};
  const Layout layout = {Placement::shard(0), Placement::shard(0)};
  const Placement whole = Placement::replicate();
  const Placement on_first = Placement::on_first_rank();
  for (int64_t node = 0; node < 2; ++node) {
    for (int64_t gpu = 0; gpu < 3; ++gpu) {
      const int64_t rank = node + 2 * gpu;
      EXPECT_EQ(coordinates_of(other, rank), (std::vector<int64_t>{node, gpu}));
      EXPECT_EQ(group_of(other, rank, 0), (std::vector<int64_t>{2 * gpu, 2 * gpu + 1}));
      EXPECT_EQ(group_of(other, rank, 1), (std::vector<int64_t>{node, node + 2, node + 4}));
      const Region here = region_of({7, 5}, layout, other, rank);
      const Region there = region_of({7, 5}, layout, mesh, 3 * node + gpu);
      EXPECT_EQ(here.start[0], there.start[0]);
      EXPECT_EQ(here.extent[0], there.extent[0]);
      for (const Layout& on_some : {Layout{on_first, whole}, Layout{whole, on_first}}) {
        const bool there_too = region_of({7, 5}, on_some, other, rank).elements() > 0;
        EXPECT_EQ(lies_on(on_some, other, rank), there_too) << to_string(on_some) << rank;
        EXPECT_EQ(lies_on(on_some, mesh, 3 * node + gpu), there_too) << to_string(on_some) << rank;
      }
    }
  }
}

// One collective gathers a dimension that all axes cut.
TEST(ShardedOn, PrefersOneDimensionForAllAxes) {
  const Mesh mesh = {{.name = "node", .size = 4}, {.name = "gpu", .size = 2}};
  const auto sharded = [&](const std::vector<bool>& axes, const Shape& shape) {
    return to_string(sharded_on(axes, Layout(2), shape, mesh));
  };
  EXPECT_EQ(sharded({true, true}, {8, 16}), "S(0) S(0)");
  EXPECT_EQ(sharded({true, true}, {4, 16}), "S(1) S(1)");  // 4 experts
  EXPECT_EQ(sharded({true, true}, {4, 6}), "S(0) S(1)");   // neither is enough for 8 ranks
  EXPECT_EQ(sharded({true, true}, {3, 2}), "S(0) S(1)");
  EXPECT_EQ(sharded({true, false}, {4, 16}), "S(0) R");
  EXPECT_EQ(sharded({false, true}, {4, 16}), "R S(0)");
}

}  // namespace
}  // namespace hidup
