// Outliers among measured ranks and links.
#include "commands/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hidup {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two hosts of two equal ranks, with links of 10 GB/s inside and 1 GB/s between them.
struct Measured {
  Measured() {
    for (const char* host : {"a", "a", "b", "b"}) {
      rates.push_back({.host = host, .products = 50e9, .memory = 20e9});
    }
    for (const RankPair& pair : pairs) {
      links.push_back(pair.first / 2 == pair.second / 2 ? 10e9 : 1e9);
    }
  }

  std::vector<RankRates> rates;
  std::vector<RankPair> pairs = pairs_of(4);
  std::vector<double> links;
};

TEST(Pairs, AreAllOfFewRanks) {
  EXPECT_EQ(pairs_of(3), (std::vector<RankPair>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(pairs_of(64).size(), 64U * 63U / 2U);
  EXPECT_LT(pairs_of(1000).size(), 10000U);
  EXPECT_THAT(pairs_of(1), IsEmpty());
}

TEST(WhatIsSlow, IsNothingAmongEqualRanks) {
  Measured measured;
  EXPECT_THAT(what_is_slow(measured.rates, measured.pairs, measured.links), IsEmpty());
  measured.rates[2].products *= 0.91;
  measured.links[0] *= 0.8;
  EXPECT_THAT(what_is_slow(measured.rates, measured.pairs, measured.links), IsEmpty());
}

TEST(WhatIsSlow, IsARankOfItsClass) {
  Measured measured;
  measured.rates[1].products = 30e9;
  measured.rates[3].memory = 15e9;
  EXPECT_THAT(what_is_slow(measured.rates, measured.pairs, measured.links),
              ElementsAre("rank 1 (a): products at 30 Gflop/s, 40 % below the median of the other "
                          "ranks of its class, 50 Gflop/s",
                          "rank 3 (b): memory at 15 GB/s, 25 % below the median of the other ranks "
                          "of its class, 20 GB/s"));
  measured.rates[1].device = 1;
  measured.rates[3].device = 2;
  EXPECT_THAT(what_is_slow(measured.rates, measured.pairs, measured.links), IsEmpty());
}

TEST(RatesOfClasses, AreTheLeastAndTheMedian) {
  Measured measured;
  EXPECT_EQ(rates_of_classes(measured.rates).size(), 1U);
  measured.rates.push_back(
      {.host = "b", .device = 1, .products = 9e9, .memory = 3e9, .rated = 1e10});
  measured.rates[1].products = 40e9;
  measured.rates[3].memory = 19e9;
  const std::vector<ClassRates> classes = rates_of_classes(measured.rates);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_THAT(classes[0].ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(classes[1].ranks, ElementsAre(4));
  EXPECT_EQ(classes[0].least_products, 40e9);
  EXPECT_EQ(classes[0].median_products, 50e9);
  EXPECT_EQ(classes[0].least_memory, 19e9);
  EXPECT_EQ(classes[0].median_memory, 20e9);
  EXPECT_EQ(classes[1].median_products, 9e9);
  EXPECT_EQ(classes[1].rated, 1e10);
}

TEST(WhatIsSlow, IsALink) {
  Measured measured;
  measured.links[2] = 0.5e9;  // of ranks 0 and 3
  EXPECT_THAT(what_is_slow(measured.rates, measured.pairs, measured.links),
              ElementsAre("rank 0 (a) and rank 3 (b): 0.5 GB/s; usual between hosts are 1 GB/s"));
}

// All ranks are alone on their hosts, and rank 2 has a slow card. Of three ranks it has two of the
// three links.
TEST(WhatIsSlow, IsARankWhoseLinksAreSlow) {
  for (const int64_t ranks : {3, 5}) {
    std::vector<RankRates> rates;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      rates.push_back({.host = std::string(1, static_cast<char>('a' + rank)),
                       .products = 50e9,
                       .memory = 20e9});
    }
    const std::vector<RankPair> pairs = pairs_of(ranks);
    std::vector<double> links;
    for (const RankPair& pair : pairs) {
      links.push_back(pair.first == 2 || pair.second == 2 ? 0.4e9 : 1e9);
    }
    const std::string all = std::to_string(ranks - 1);
    EXPECT_THAT(what_is_slow(rates, pairs, links),
                ElementsAre("rank 2 (c): " + all + " of its " + all +
                            " links between hosts are slow, 0.4 GB/s by the median of all of them; "
                            "the usual is 1 GB/s"));
    EXPECT_EQ(median_link(rates, pairs, links, 2, true), 0.4e9);
    EXPECT_EQ(median_link(rates, pairs, links, 2, false), 0.0);
  }
}

}  // namespace
}  // namespace hidup
