#include "app/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/changed_links.h"
#include "cost/cost_model.h"
#include "cost/roofline.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
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
  deck.cluster->cost_model = "measured";
  deck.cluster->device_flops = 1.6e12;
  deck.cluster->mesh = kAxes;
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
  deck.cluster->memory_bandwidth = 5e11;
  MachineRates fast = kRates;
  fast.memory_bandwidth = 5e11;
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()),
            print_profile(roofline_profile(kMesh, fast)));
}

// Returns the seconds of a product of n x n x n.
double product_seconds(const Deck& deck, double n, DType dtype) {
  const Work work{.flops = 2.0 * n * n * n, .bytes = 1.0, .sizes = {1, 1, 1}, .dtype = dtype};
  return CostModel(costs_of(deck, kMesh, std::nullopt).value()).operation(Opcode::matmul, work);
}

TEST(Costs, OfProductsByTheirPrecision) {
  Deck deck = deck_with_rates();
  const double rated = product_seconds(deck, 100.0, DType::f32);
  EXPECT_DOUBLE_EQ(product_seconds(deck, 100.0, DType::bf16), rated);
  deck.cluster->flops_16bit = 16.0 * 1.6e12;
  EXPECT_DOUBLE_EQ(product_seconds(deck, 100.0, DType::f32), rated);
  EXPECT_DOUBLE_EQ(product_seconds(deck, 100.0, DType::bf16), rated / 16.0);
  EXPECT_DOUBLE_EQ(product_seconds(deck, 100.0, DType::f16), rated / 16.0);
}

TEST(Costs, OfProductsByTheShareThatTheyReach) {
  Deck deck = deck_with_rates();
  const auto slowed = [&](double n, DType dtype) {
    Deck rated = deck;
    rated.cluster->efficiency.clear();
    return product_seconds(deck, n, dtype) / product_seconds(rated, n, dtype);
  };
  deck.cluster->efficiency = {{.precision = "any", .size = std::nullopt, .share = 0.8},
                              {.precision = "fp16", .size = 1000, .share = 0.5},
                              {.precision = "fp16", .size = 10, .share = 0.125}};
  EXPECT_NEAR(slowed(100.0, DType::f32), 1.0 / 0.8, 1e-9) << "no item names fp32";
  for (const DType dtype : {DType::f16, DType::bf16}) {
    EXPECT_NEAR(slowed(1e3, dtype), 2.0, 1e-9);
    EXPECT_NEAR(slowed(1e4, dtype), 2.0, 1e-9) << "as the nearest";
    EXPECT_NEAR(slowed(1e1, dtype), 8.0, 1e-9);
    EXPECT_NEAR(slowed(1e0, dtype), 8.0, 1e-9) << "as the nearest";
    EXPECT_NEAR(slowed(1e2, dtype), 4.0, 1e-9) << "in the middle on logarithmic scales";
  }
  deck.cluster->efficiency.push_back({.precision = "bf16", .size = std::nullopt, .share = 0.25});
  EXPECT_NEAR(slowed(1e3, DType::bf16), 4.0, 1e-9) << "it has an item of its own";
  const auto copied = [&] {
    const Work work{.flops = 1e6, .bytes = 1e6, .sizes = {1, 1}};
    return CostModel(costs_of(deck, kMesh, std::nullopt).value()).operation(Opcode::add, work);
  };
  const double with_items = copied();
  deck.cluster->cost_model = "published";
  EXPECT_NEAR(slowed(1e3, DType::f16), 1.0, 1e-9) << "the paper has rates only";
  deck.cluster->cost_model = "measured";
  deck.cluster->efficiency.clear();
  EXPECT_DOUBLE_EQ(copied(), with_items) << "of products only";
}

TEST(Costs, RatedFlopsAreThoseOfAllRanks) {
  Deck deck = deck_with_rates();
  deck.model->precision = "fp32";
  EXPECT_EQ(rated_flops(deck, 8), 8 * 1.6e12);
  deck.cluster->flops_16bit = 25e12;
  EXPECT_EQ(rated_flops(deck, 8), 8 * 1.6e12);
  deck.model->precision = "bf16";
  EXPECT_EQ(rated_flops(deck, 8), 8 * 25e12);
  deck.cluster->devices = {{.count = 2, .flops = 1e12, .memory_bandwidth = {}},
                           {.count = 6, .flops = 3e12, .memory_bandwidth = {}}};
  EXPECT_EQ(rated_flops(deck, 8), 20e12);
  EXPECT_EQ(rated_flops(Deck{}, 8), 0.0) << "not known";
}

TEST(Costs, MeasuredOnesComeFirst) {
  const Profile measured = measured_profile();
  Deck deck = deck_with_rates();
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, measured).value()), print_profile(measured));
  Deck without_rates;
  without_rates.cluster->mesh = kAxes;
  EXPECT_EQ(print_profile(costs_of(without_rates, kMesh, measured).value()),
            print_profile(measured))
      << "they need no rates";
  deck.cluster->cost_model = "published";
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, measured).value()),
            print_profile(published_profile(kMesh, kRates)));
}

// The last four of the mesh's 8 ranks take twice as long.
TEST(Costs, OfMeasuredClassesAreEachRanks) {
  Profile measured = measured_profile();
  measured.key.classes = {0, 0, 0, 0, 1, 1, 1, 1};
  for (OperationTime& time : measured.operations) {
    time.by_class = {0.5 * time.seconds, time.seconds};
  }
  const RankCosts ranks = rank_costs(Deck{}, kMesh, measured);
  ASSERT_FALSE(ranks.all_alike());
  const OperationTime& first = measured.operations.front();
  EXPECT_NEAR(ranks.of(3).operation(first.opcode, first.work), 0.5 * first.seconds,
              1e-6 * first.seconds);
  EXPECT_NEAR(ranks.of(4).operation(first.opcode, first.work), first.seconds, 1e-6 * first.seconds);
  const Mesh paced = with_paces(kMesh, paces_of_ranks(Deck{}, kMesh, measured));
  ASSERT_EQ(paced[0].paces.size(), 2U);
  EXPECT_NEAR(paced[0].paces[0] / paced[0].paces[1], 2.0, 1e-9);
  EXPECT_TRUE(paced[1].paces.empty());
  EXPECT_NEAR(balanced_costs(Deck{}, kMesh, measured).operations.front().seconds,
              first.seconds * 2.0 / 3.0, 1e-9 * first.seconds);
  measured.key.classes.pop_back();
  EXPECT_TRUE(rank_costs(Deck{}, kMesh, measured).all_alike()) << "of another number of ranks";
}

TEST(Costs, AreNotThereWithoutRates) {
  Deck deck = deck_with_rates();
  deck.cluster->mesh[1].bandwidth.reset();
  EXPECT_FALSE(costs_of(deck, kMesh, std::nullopt));
  EXPECT_TRUE(costs_of(deck, {{"node", 2}, {"gpu", 1}}, std::nullopt))
      << "one rank along an axis sends nothing";
  EXPECT_THAT(error_of([&] { fail_for_missing_rate(deck, kMesh, "it is needed"); }),
              Pair(ExitCode::usage, "cluster.mesh[1].bandwidth is missing: it is needed"));
  deck.cluster->device_flops.reset();
  EXPECT_FALSE(costs_of(deck, {{"node", 1}, {"gpu", 1}}, std::nullopt));
  EXPECT_THAT(error_of([&] { fail_for_missing_rate(deck, kMesh, "it is needed"); }),
              Pair(ExitCode::usage, "cluster.device.flops is missing: it is needed"));
  deck.cluster->cost_model = "published";
  EXPECT_FALSE(costs_of(deck, kMesh, measured_profile())) << "which rest on rates only";
}

TEST(Costs, OfChangedClustersAreThoseOfChangedRates) {
  Deck deck = deck_with_rates();
  deck.cluster->mesh[1].per_host = 2;
  deck.cluster->mesh[1].host_bandwidth = 3e9;
  const Profile now = costs_of(deck, kMesh, std::nullopt).value();
  EXPECT_EQ(print_profile(changed_costs(deck, now, kMesh, std::nullopt).value()),
            print_profile(now));
  Deck faster = deck;
  faster.cluster->mesh[1].bandwidth = 2e10;
  faster.cluster->mesh[1].host_bandwidth = 6e9;
  EXPECT_EQ(print_profile(changed_costs(deck, now, kMesh, 1).value()),
            print_profile(costs_of(faster, kMesh, std::nullopt).value()));
  const Mesh more = {{"node", 4}, {"gpu", 4}};
  EXPECT_EQ(print_profile(changed_costs(deck, now, more, std::nullopt).value()),
            print_profile(costs_of(deck, more, std::nullopt).value()));
}

TEST(Costs, OfChangedClustersRestOnWhatWasMeasured) {
  Profile measured = measured_profile();
  measured.key.build = "1.0";
  const Deck deck = deck_with_rates();
  const Mesh more = {{"node", 4}, {"gpu", 4}};
  EXPECT_EQ(print_profile(changed_costs(deck, measured, more, 1).value()),
            print_profile(with_bandwidth(with_ranks(measured, 0, 4), 1, 2.0)));
  measured.key.mesh[0].size = 1;
  EXPECT_FALSE(changed_costs(deck, measured, more, std::nullopt));
}

TEST(Costs, NoiseIsDrawnFromTheSeed) {
  Deck deck = deck_with_rates();
  const std::string exact = print_profile(costs_of(deck, kMesh, std::nullopt).value());
  deck.cluster->profile_noise = 0.5;
  deck.train->seed = 1;
  const std::string one = print_profile(costs_of(deck, kMesh, std::nullopt).value());
  EXPECT_NE(one, exact);
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()), one);
  deck.train->seed = 2;
  EXPECT_NE(print_profile(costs_of(deck, kMesh, std::nullopt).value()), one);
}

TEST(Costs, OfASharedLinkAreOfARanksPart) {
  Deck deck = deck_with_rates();
  deck.cluster->mesh[0].shared = 4;
  MachineRates divided = kRates;
  divided.links[0].bandwidth /= 4.0;
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()),
            print_profile(roofline_profile(kMesh, divided)));
}

TEST(Costs, OfAnAxisOverHostsAreOfBothLinks) {
  Deck deck = deck_with_rates();
  deck.cluster->mesh[1].per_host = 2;
  deck.cluster->mesh[1].host_bandwidth = 1.25e9;
  MachineRates hosts = kRates;
  hosts.links[1].per_host = 2;
  hosts.links[1].host_bandwidth = 1.25e9;
  const std::string costs = print_profile(costs_of(deck, kMesh, std::nullopt).value());
  EXPECT_EQ(costs, print_profile(roofline_profile(kMesh, hosts)));
  EXPECT_NE(costs, print_profile(roofline_profile(kMesh, kRates)));
}

Deck deck_with_devices() {
  Deck deck = deck_with_rates();
  deck.cluster->device_flops.reset();
  deck.cluster->devices = {{.count = 5, .flops = 1.6e12},
                           {.count = 2, .flops = 3.2e11, .memory_bandwidth = 2e11},
                           {.count = 1, .flops = 1.6e12, .memory_bandwidth = 1e11}};
  return deck;
}

TEST(Costs, AreOfTheLeastRates) {
  MachineRates least = kRates;
  least.flops = 3.2e11;
  least.memory_bandwidth = 1e11;
  EXPECT_EQ(print_profile(costs_of(deck_with_devices(), kMesh, std::nullopt).value()),
            print_profile(roofline_profile(kMesh, least)));
}

TEST(Costs, OfDevicesRestOnTheRateOfEach) {
  Deck deck = deck_with_devices();
  deck.cluster->devices[1].flops.reset();
  EXPECT_EQ(costs_of(deck, kMesh, std::nullopt), std::nullopt);
  EXPECT_THROW(costs_without_ranks(deck, kMesh), Error);
  deck.cluster->device_flops = 3.2e11;
  EXPECT_EQ(print_profile(costs_of(deck, kMesh, std::nullopt).value()),
            print_profile(costs_of(deck_with_devices(), kMesh, std::nullopt).value()));
  deck.model->precision = "bf16";
  deck.cluster->devices[0].flops_16bit = 4e12;
  EXPECT_EQ(rated_flops(deck, 8), 5 * 4e12 + 2 * 3.2e11 + 1.6e12);
}

TEST(Costs, AreBalancedByTheMeanRatesWherePacesDiffer) {
  const Deck deck = deck_with_devices();
  const Profile least = costs_of(deck, kMesh, std::nullopt).value();
  Mesh mesh = kMesh;
  EXPECT_EQ(print_profile(balanced_costs(deck, mesh, least)), print_profile(least));
  mesh[0].paces.assign(static_cast<size_t>(mesh[0].size), 1.0);
  MachineRates mean = kRates;
  mean.flops = (6 * 1.6e12 + 2 * 3.2e11) / 8;
  mean.memory_bandwidth = (6 * 1e11 + 2 * 2e11) / 8;
  EXPECT_EQ(print_profile(balanced_costs(deck, mesh, least)),
            print_profile(roofline_profile(kMesh, mean)));
}

// Returns the seconds of a product of 1.6 Tflop, and of moving 100 GB.
std::pair<double, double> pace_of_rank(const RankCosts& costs, int64_t rank) {
  return {costs.of(rank).operation(Opcode::matmul, {.flops = 1.6e12}),
          costs.of(rank).operation(Opcode::add, {.bytes = 1e11})};
}

TEST(RankCosts, AreThoseOfEachDevice) {
  const Deck deck = deck_with_devices();
  const RankCosts costs = rank_costs(deck, kMesh, costs_of(deck, kMesh, std::nullopt).value());
  EXPECT_FALSE(costs.all_alike());
  for (const int64_t rank : {0, 4, 7}) {
    EXPECT_THAT(pace_of_rank(costs, rank),
                Pair(::testing::DoubleNear(1.0, 1e-9), ::testing::DoubleNear(1.0, 1e-9)));
    EXPECT_EQ(costs.class_of(rank), 0U) << "with the same rates, whatever they are written as";
  }
  EXPECT_THAT(pace_of_rank(costs, 5),
              Pair(::testing::DoubleNear(5.0, 1e-9), ::testing::DoubleNear(0.5, 1e-9)));
  EXPECT_EQ(costs.class_of(6), costs.class_of(5));
}

TEST(RankCosts, AreAlikeWithoutDevicesAndWithAProfile) {
  const Deck equal = deck_with_rates();
  EXPECT_TRUE(rank_costs(equal, kMesh, costs_of(equal, kMesh, std::nullopt).value()).all_alike());
  const Deck deck = deck_with_devices();
  Profile measured = measured_profile();
  measured.key.build = "1.0";
  EXPECT_TRUE(rank_costs(deck, kMesh, costs_of(deck, kMesh, measured).value()).all_alike());
  Deck same = deck;
  same.cluster->devices = {{.count = 4, .flops = 1e12}, {.count = 4, .flops = 1e12}};
  EXPECT_TRUE(rank_costs(same, kMesh, costs_of(same, kMesh, std::nullopt).value()).all_alike());
}

TEST(LinksInTime, AreThoseWithATrace) {
  Deck deck = deck_with_rates();
  EXPECT_TRUE(links_in_time(deck, kMesh).empty());
  deck.cluster->mesh[0].bandwidth_trace = {{.for_s = 1e-6, .rate = 5e8}};
  deck.cluster->mesh[0].shared = 2;
  const std::vector<BandwidthTrace> links = links_in_time(deck, kMesh);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].end_of(0, 1000), 2000) << "half of the nominal 1 GB/s";
  EXPECT_EQ(links[1].end_of(0, 1000), 1000);
  EXPECT_EQ(links_in_time(deck, {kMesh[1], kMesh[0]})[1].end_of(0, 1000), 2000) << "by name";
}

TEST(PacesInTime, AreThoseOfEveryRank) {
  Deck deck = deck_with_rates();
  EXPECT_TRUE(paces_in_time(deck, 3).empty());
  EXPECT_EQ(alike_devices(*deck.cluster, 3), (std::vector<int64_t>{0, 0, 0}));
  deck.cluster->devices = {{.count = 2, .flops = 1e12},
                           {.flops = 2e12},
                           {.flops = 1e12, .pace_trace = {{.for_s = 1e-6, .rate = 0.25}}}};
  const std::vector<BandwidthTrace> paces = paces_in_time(deck, 4);
  ASSERT_EQ(paces.size(), 4U);
  EXPECT_EQ(paces[1].end_of(0, 1000), 1000);
  EXPECT_EQ(paces[3].end_of(0, 1000), 4000);
  EXPECT_EQ(alike_devices(*deck.cluster, 4), (std::vector<int64_t>{0, 0, 1, 0}));
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
  input.deck.cluster->cost_model = "published";
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
