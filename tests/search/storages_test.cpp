// The possible storages of an operation's parameters.
#include "search/problem/storages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setting.h"

namespace hidup {
namespace {

using ::testing::ElementsAre;

struct Stored {
  std::vector<std::string> layouts;  // "storage, state" of the weight
  std::vector<ChoiceMeaning> meanings;
};

// Returns the storages of the first feed-forward product, 64 by 256, with one rule per axis.
Stored storages(const Mesh& mesh, const std::vector<std::string>& rules,
                StorageChoices choices = StorageChoices::on_some_axes) {
  const Graph graph = build_model(small_deck(), 1000);
  const OpId op = graph.tensor(graph.find("layers.0.ffn.up")).producer;
  OpStrategy op_strategy;
  for (const std::string& name : rules) {
    op_strategy.rules.push_back(find_rule(graph, op, name));
  }
  const Hints hints;
  Stored stored;
  stored.meanings = Storages(graph, mesh, hints, choices).of(op, op_strategy, {1});
  for (const ChoiceMeaning& meaning : stored.meanings) {
    const ParameterLayouts& weight = meaning.parameters.at(0);
    stored.layouts.push_back(to_string(weight.storage) + ", " + to_string(weight.optimizer_state));
  }
  return stored;
}

TEST(Storages, OfOneAxis) {
  EXPECT_THAT(storages({{"gpu", 4}}, {"batch"}).layouts,
              ElementsAre("R, R", "R, S(0)", "S(0), S(0)"));
  EXPECT_THAT(storages({{"gpu", 4}}, {"batch"}, StorageChoices::as_used).layouts,
              ElementsAre("R, R"));
  EXPECT_THAT(storages({{"gpu", 4}}, {"column"}).layouts, ElementsAre("S(1), S(1)"));
}

// The state may be sharded on every set of axes, and the storage on every subset of it.
TEST(Storages, OfTwoAxes) {
  EXPECT_THAT(storages({{"node", 2}, {"gpu", 4}}, {"batch", "batch"}).layouts,
              ElementsAre("R R, R R",
                          "R R, S(0) S(0)",        // ZeRO's stage 1
                          "S(0) S(0), S(0) S(0)",  // and 3
                          "R S(0), S(1) S(0)",     // stage 3 inside, and 1 across
                          "S(0) R, S(0) S(0)",
                          "R R, R S(0)",     // stage 1 inside
                          "R S(0), R S(0)",  // hybrid: stage 3 inside
                          "R R, S(0) R", "S(0) R, S(0) R"));
  EXPECT_THAT(
      storages({{"node", 2}, {"gpu", 4}}, {"batch", "batch"}, StorageChoices::on_all_axes).layouts,
      ElementsAre("R R, R R", "R R, S(0) S(0)", "S(0) S(0), S(0) S(0)"));
  EXPECT_THAT(storages({{"node", 2}, {"gpu", 4}}, {"batch", "column"}).layouts,
              ElementsAre("R S(1), R S(1)", "R S(1), S(0) S(1)", "S(0) S(1), S(0) S(1)"));
  EXPECT_THAT(storages({{"node", 2}, {"gpu", 1}}, {"batch", "batch"}).layouts,
              ElementsAre("R R, R R", "R R, S(0) R", "S(0) R, S(0) R"));
}

// The updated part lies within the stored one where inner axes leave a dimension to cut, so nothing
// is sent for the update.
TEST(Storages, StateLiesWithinTheStorage) {
  const Mesh mesh = {{"pod", 2}, {"node", 2}, {"gpu", 3}};
  const Graph graph = build_model(small_deck(), 1000);
  for (const char* rule : {"batch", "replicate"}) {
    const Stored stored = storages(mesh, {"batch", "batch", rule});
    for (const ChoiceMeaning& meaning : stored.meanings) {
      const ParameterLayouts& weight = meaning.parameters.at(0);
      EXPECT_TRUE(reshards_locally(weight.storage, weight.optimizer_state, mesh))
          << to_string(weight.storage) << ", " << to_string(weight.optimizer_state);
    }
  }
}

}  // namespace
}  // namespace hidup
