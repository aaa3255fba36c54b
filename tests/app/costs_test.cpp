#include "app/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/cost_model.h"
#include "cost/roofline.h"
#include "small_decks.h"

namespace hidup {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

const Mesh kMesh = {{"node", 2}, {"gpu", 4}};
const std::vector<MeshAxis> kAxes = {{.name = "node", .size = 2, .bandwidth = 1e9, .latency = 1e-5},
                                     {.name = "gpu", .size = 4, .bandwidth = 1e10}};
const MachineRates kRates = {
    .flops = 1.6e12,
    .memory_bandwidth = 1e11,
    .links = {{.bandwidth = 1e9, .latency_s = 1e-5}, {.bandwidth = 1e10, .latency_s = 0.0}}};

Deck deck_with_rates() {
  Deck deck;
  deck.cluster.cost_model = "measured";
  deck.cluster.device_flops = 1.6e12;
  deck.cluster.mesh = kAxes;
  return deck;
}

Profile measured_profile() {
  MachineRates slow = kRates;
  slow.flops = 1e6;
  return roofline_profile(kMesh, slow);
}

TEST(Costs, OfTheDecksRates) {
  Deck deck = deck_with_rates();
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()),
            print_profile(roofline_profile(kMesh, kRates)))
      << "the memory moves a byte for every 16 flops, no latency is none";
  deck.cluster.memory_bandwidth = 5e11;
  MachineRates fast = kRates;
  fast.memory_bandwidth = 5e11;
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()),
            print_profile(roofline_profile(kMesh, fast)));
}

TEST(Costs, MeasuredOnesComeFirst) {
  const Profile measured = measured_profile();
  Deck deck = deck_with_rates();
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, measured).value()), print_profile(measured));
  EXPECT_EQ(print_profile(costs_of({.cluster = {.mesh = kAxes}}, kMesh, measured).value()),
            print_profile(measured))
      << "they need no rates";
  deck.cluster.cost_model = "published";
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, measured).value()),
            print_profile(published_profile(kMesh, kRates)));
}

TEST(Costs, AreNotThereWithoutRates) {
  Deck deck = deck_with_rates();
  deck.cluster.mesh[1].bandwidth.reset();
  EXPECT_FALSE(costs_of(deck, kMesh, std::nullopt));
  EXPECT_TRUE(costs_of(deck, {{"node", 2}, {"gpu", 1}}, std::nullopt))
      << "one rank along an axis sends nothing";
  EXPECT_THAT(error_of([&] { fail_for_missing_rate(deck, kMesh, "it is needed"); }),
              Pair(ExitCode::usage, "cluster.mesh[1].bandwidth is missing: it is needed"));
  deck.cluster.device_flops.reset();
  EXPECT_FALSE(costs_of(deck, {{"node", 1}, {"gpu", 1}}, std::nullopt));
  EXPECT_THAT(error_of([&] { fail_for_missing_rate(deck, kMesh, "it is needed"); }),
              Pair(ExitCode::usage, "cluster.device.flops is missing: it is needed"));
  deck.cluster.cost_model = "published";
  EXPECT_FALSE(costs_of(deck, kMesh, measured_profile())) << "which rest on rates only";
}

TEST(Costs, NoiseIsDrawnFromTheSeed) {
  Deck deck = deck_with_rates();
  const std::string exact = print_profile(costs_of(deck, kMesh, std::nullopt).value());
  deck.cluster.profile_noise = 0.5;
  deck.train.seed = 1;
  const std::string one = print_profile(costs_of(deck, kMesh, std::nullopt).value());
  EXPECT_NE(one, exact);
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()), one);
  deck.train.seed = 2;
  EXPECT_NE(print_profile(costs_of(deck, kMesh, std::nullopt).value()), one);
}

TEST(CostsWithoutRanks, OfTheDecksFileWhereItFits) {
  const SmallDecks decks;
  const Mesh ranks = {{"ranks", 4}};
  const MachineRates rates = {.flops = 1e9, .memory_bandwidth = 1e9, .links = {{1e9, 1e-3}}};
  Profile profile = roofline_profile(ranks, rates);
  profile.key.libraries = {"a library"};
  profile.key.hosts = {0, 0, 0, 0};
  const std::string text = print_profile(profile);
  const std::string file = decks.folder.write("profile.yaml", text);
  PlanningInput input = decks.read({"cluster.profile=" + file});
  EXPECT_EQ(print_profile(costs_without_ranks(input.deck, input.mesh)), text);
  EXPECT_THAT(error_of([&] {
                costs_without_ranks(input.deck, {{"ranks", 8}});
              }),
              Pair(ExitCode::usage, HasSubstr("--set cluster.profile=" + file +
                                              ": cluster.profile: " + file + " does not fit: ")));
  decks.folder.write("profile.yaml", "costs");
  EXPECT_EQ(error_of([&] { costs_without_ranks(input.deck, input.mesh); }).first, ExitCode::usage);
  input.deck.cluster.cost_model = "published";
  EXPECT_NO_THROW(costs_without_ranks(input.deck, input.mesh)) << "which does not read it";
}

TEST(CostsWithoutRanks, OfTheDecksRatesWhereATrainingWouldMeasure) {
  const SmallDecks decks;
  for (const char* profile : {"cluster.profile=auto", "cluster.profile=none"}) {
    const PlanningInput input = decks.read({profile});
    EXPECT_EQ(print_profile(costs_without_ranks(input.deck, input.mesh)),
              print_profile(costs_of(input.deck, input.mesh, std::nullopt).value()));
  }
  const PlanningInput input = decks.read({"cluster.device.flops=auto"});
  EXPECT_THAT(error_of([&] { costs_without_ranks(input.deck, input.mesh); }),
              Pair(ExitCode::usage, HasSubstr("--set cluster.device.flops=auto: "
                                              "cluster.device.flops is missing: ")));
}

}  // namespace
}  // namespace hidup
