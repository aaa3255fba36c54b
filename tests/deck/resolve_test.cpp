// Decks written back, and the reference page.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "deck_text.h"

namespace hidup {
namespace {

// Both decks of `deck`, parsed and written again.
std::string resolved(const Deck& deck) {
  return resolved_yaml(deck, DeckFile::model) + resolved_yaml(deck, DeckFile::cluster);
}

std::string resolved_twice(const Deck& deck) {
  return resolved(
      parse(resolved_yaml(deck, DeckFile::model), resolved_yaml(deck, DeckFile::cluster)));
}

TEST(ResolvedDeck, HasAllKeysWithTheirValues) {
  EXPECT_EQ(resolved_yaml(parse(kModel), DeckFile::model), "?");
  EXPECT_EQ(resolved_yaml(parse(kModel), DeckFile::cluster), "?");
}

TEST(ResolvedDeck, ParsesToTheSameValues) {
  const std::vector<std::string> overrides = {
      "data.path=[\"a 'quoted' \\\"path\\\"\", 'back\\slash: #1', '*.txt']",
      "train.seed=9223372036854775807",
      "train.lr=0.1234567890123456",
      "train.bucket=5000001B",
      "cluster.comm.heartbeat_timeout=1.1min",
      "cluster.device.flops=15.7TFLOPS",
      "cluster.device.memory=0.1GiB",
      "cluster.mesh=[{name: 'null', size: 2, bandwidth: 0.3GiB/s, latency: 0}, "
      "{name: no, size: auto, bandwidth: 3.33kbps, latency: 7.7ns}]",
  };
  const Deck deck = parse(kModel, kCluster, overrides);
  const Deck again =
      parse(resolved_yaml(deck, DeckFile::model), resolved_yaml(deck, DeckFile::cluster));
  EXPECT_EQ(again.data.path, deck.data.path);
  EXPECT_EQ(again.train.seed, deck.train.seed);
  EXPECT_EQ(again.train.lr, deck.train.lr);
  EXPECT_EQ(again.train.bucket_bytes, deck.train.bucket_bytes);
  EXPECT_EQ(again.cluster.heartbeat_timeout_s, deck.cluster.heartbeat_timeout_s);
  EXPECT_EQ(again.cluster.device_flops, deck.cluster.device_flops);
  EXPECT_EQ(again.cluster.device_memory, deck.cluster.device_memory);
  ASSERT_EQ(again.cluster.mesh.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.cluster.mesh[i].name, deck.cluster.mesh[i].name);
    EXPECT_EQ(again.cluster.mesh[i].size, deck.cluster.mesh[i].size);
    EXPECT_EQ(again.cluster.mesh[i].bandwidth, deck.cluster.mesh[i].bandwidth);
    EXPECT_EQ(again.cluster.mesh[i].latency, deck.cluster.mesh[i].latency);
  }
  EXPECT_EQ(resolved_twice(deck), resolved(deck));
}

TEST(ResolvedDeck, OfSyntheticDataHasNoPath) {
  const Deck deck =
      parse(with_line(kModel, 8, ""), kCluster, {"data.kind=synthetic", "model.vocab=100"});
  EXPECT_EQ(resolved_twice(deck), resolved(deck));
}

TEST(Reference, PageIsUpToDate) {
  std::ifstream file(HIDUP_INPUTS "/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == reference_markdown())
      << "inputs/README.md is out of date. Write it again with:\n"
         "    hidup validate --keys > inputs/README.md";
}

}  // namespace
}  // namespace hidup
