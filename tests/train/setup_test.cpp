#include "train/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "comm/collective.h"
#include "deck/cluster_deck.h"
#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

using testing::HasSubstr;

// The message of rank 0, where rank 1 has `other` and the others have `files`.
std::string difference(const std::vector<CorpusFile>& files, const std::vector<CorpusFile>& other) {
  std::string message;
  run_ranks(3, [&](Communicator& world) {
    Dataset data;
    data.files = world.rank() == 1 ? other : files;
    try {
      check_same_data(world, data);
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      if (world.rank() == 0) {
        message = error.what();
      } else {
        EXPECT_STREQ(error.what(), "");
      }
    }
  });
  return message;
}

TEST(SameData, NamesTheFileThatDiffers) {
  const std::vector<CorpusFile> files = {{"a", 10, 1}, {"b", 20, 2}, {"c", 30, 3}};
  EXPECT_EQ(difference(files, files), "");
  EXPECT_EQ(difference({}, {}), "");
  EXPECT_THAT(difference(files, {{"a", 10, 1}, {"b", 15, 8}, {"c", 30, 9}}),
              HasSubstr("on rank 1 than on rank 0: b, 15 bytes, but on rank 0 b, 20 bytes"));
  EXPECT_THAT(difference(files, {{"a", 10, 1}, {"b", 20, 2}}),
              HasSubstr("no such file, but on rank 0 c, 30 bytes"));
  // The hashes of the validation's files do not go on from those before.
  EXPECT_THAT(difference(files, {{"a", 10, 1}, {"x", 25, 7}, {"c", 30, 3}}),
              HasSubstr("x, 25 bytes, but on rank 0 b, 20 bytes"));
}

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
