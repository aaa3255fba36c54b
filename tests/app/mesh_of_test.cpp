// The order of a mesh's axes.
#include <gtest/gtest.h>

#include <utility>

#include "app/planning.h"
#include "deck/cluster_deck.h"

namespace hidup {
namespace {

Deck deck_with_axes(std::vector<MeshAxis> mesh) {
  Deck deck;
  deck.cluster->mesh = std::move(mesh);
  return deck;
}

TEST(MeshOf, HasTheSlowestLinksFirstAndRanksAsTheDeck) {
  const MeshAxis node{.name = "node", .bandwidth = 1e9};
  const MeshAxis gpu{.name = "gpu", .bandwidth = 1e11};
  const Mesh written = mesh_of(deck_with_axes({node, gpu}), {2, 3});
  const Mesh swapped = mesh_of(deck_with_axes({gpu, node}), {3, 2});
  for (const Mesh& mesh : {written, swapped}) {
    ASSERT_EQ(mesh.size(), 2U);
    EXPECT_EQ(mesh[0].name, "node");
    EXPECT_EQ(mesh[0].size, 2);
    EXPECT_EQ(mesh[1].name, "gpu");
  }
  EXPECT_EQ(coordinates_of(written, 1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(coordinates_of(swapped, 1), (std::vector<int64_t>{1, 0}));
}

TEST(MeshOf, CountsARanksPartOfASharedLink) {
  const MeshAxis card{.name = "card", .bandwidth = 8e9, .shared = 8};
  const MeshAxis rack{.name = "rack", .bandwidth = 2e9};
  EXPECT_EQ(mesh_of(deck_with_axes({rack, card}), {2, 8})[0].name, "card");
}

TEST(MeshOf, KeepsTheOrderWhereABandwidthIsNotKnown) {
  const MeshAxis fast{.name = "fast", .bandwidth = 1e11};
  EXPECT_EQ(mesh_of(deck_with_axes({fast, {.name = "other"}}), {2, 2})[0].name, "fast");
}

}  // namespace
}  // namespace hidup
