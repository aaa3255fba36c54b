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

TEST(Coordinates, AreRowMajor) {
  const Mesh mesh = {{"node", 2}, {"gpu", 4}};
  EXPECT_EQ(coordinates_of(mesh, 6), (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace hidup
