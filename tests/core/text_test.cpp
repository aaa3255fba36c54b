#include "core/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace hidup {
namespace {

const std::vector<std::string> kKeys = {"model.layers", "model.hidden", "train.batch", "lr"};

TEST(Nearest, FindsTypos) {
  EXPECT_EQ(nearest("model.layer", kKeys), "model.layers");
  EXPECT_EQ(nearest("model.lyaers", kKeys), "model.layers");
  EXPECT_EQ(nearest("Model.Hidden", kKeys), "model.hidden");
  EXPECT_EQ(nearest("rl", kKeys), "lr");
}

TEST(Nearest, SaysNothingWhereNothingIsClose) {
  EXPECT_EQ(nearest("cluster.device", kKeys), "");
  EXPECT_EQ(nearest("", kKeys), "");
}

TEST(Matches, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches("layers.*.ffn.up", "layers.0.ffn.up"));
  EXPECT_TRUE(matches("layers.*.ffn.up", "layers.10.ffn.up"));
  EXPECT_FALSE(matches("layers.*.ffn.up", "layers.0.ffn.up.biased"));
  EXPECT_TRUE(matches("layers.?.ffn*", "layers.0.ffn.up"));
  EXPECT_FALSE(matches("layers.?.ffn*", "layers.10.ffn.up"));
  EXPECT_TRUE(matches("*up", "upset up"));  // the star takes in the first
  EXPECT_FALSE(matches("*up", "up set"));
  EXPECT_TRUE(matches("a**", "a"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("a", "aa"));
}

// The hash names files and random streams: it must never change.
TEST(Hash, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace hidup
