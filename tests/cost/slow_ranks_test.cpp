// Finding slow ranks and links in made-up times.
#include "cost/slow_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace hidup {
namespace {

constexpr double kProductsTime = 6e-3, kAttentionTime = 1e-3, kMemoryTime = 3e-3,
                 kMessagesTime = 2e-3;
constexpr double kStepTime = 12e-3;

// A cluster of equal ranks in groups along an axis. Tests change its times.
struct Cluster {
  explicit Cluster(int64_t ranks, int64_t group_size) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      parts.push_back({.ranks = {rank}, .expected = {kProductsTime, kAttentionTime, kMemoryTime}});
    }
    for (int64_t first = 0; first < ranks; first += group_size) {
      WatchedPart group{.axes = "ranks", .expected = {kMessagesTime}};
      for (int64_t rank = first; rank < first + group_size; ++rank) {
        group.ranks.push_back(rank);
      }
      parts.push_back(group);
    }
  }

  // Returns "part over since" of the news in so many blocks: "2 since 51", "2 over since 101".
  std::vector<std::string> run(int blocks) {
    SlowRanks watch(parts);
    std::vector<std::string> texts;
    for (block = 0; block < blocks; ++block) {
      WatchedBlock times{.first = 10 * block + 1, .last = 10 * block + 10, .step_s = kStepTime};
      for (size_t part = 0; part < parts.size(); ++part) {
        std::vector<double>& of_part = times.times.emplace_back(parts[part].expected);
        change(part, of_part);
      }
      for (const SlowNews& one : watch.add(times)) {
        news.push_back(one);
        texts.push_back(std::to_string(one.part) + (one.over ? " over" : "") + " since " +
                        std::to_string(one.since));
        found_at.push_back(times.last);
      }
    }
    return texts;
  }

  // Makes all times of the part longer by the factor.
  static void stretch(std::vector<double>& times, double factor) {
    for (double& time : times) {
      time *= factor;
    }
  }

  std::vector<WatchedPart> parts;
  int block = 0;
  std::function<void(size_t part, std::vector<double>& times)> change = [](size_t, auto&) {};
  std::vector<SlowNews> news;
  std::vector<int64_t> found_at;
};

using Texts = std::vector<std::string>;

// Multiplies times by normal noise.
class Noise {
 public:
  explicit Noise(double size) : size_(size) {}
  void operator()(std::vector<double>& times) {
    for (double& time : times) {
      time *= std::exp(size_ * normal_(numbers_));
    }
  }

 private:
  double size_;
  std::mt19937 numbers_{7};
  std::normal_distribution<double> normal_;
};

TEST(SlowRanks, SayNothingOfEqualRanks) {
  EXPECT_EQ(Cluster(4, 4).run(100), Texts{});
}

TEST(SlowRanks, NameTheRankAndItsSlowestOperations) {
  for (const int64_t ranks : {2, 3, 8}) {
    Cluster cluster(ranks, ranks);
    cluster.change = [&](size_t part, auto& times) {
      if (part == 1 && cluster.block >= 5) {
        times[0] *= 1.5;
      }
    };
    EXPECT_EQ(cluster.run(40), Texts{"1 since 51"}) << ranks;
    EXPECT_EQ(cluster.found_at[0], 100) << "five blocks after the start";
    EXPECT_NEAR(cluster.news[0].slower_by, 0.3, 1e-9);
    EXPECT_EQ(cluster.news[0].operations, OperationClass::products);
    EXPECT_NEAR(cluster.news[0].operations_slower_by, 0.5, 1e-9);
  }
}

TEST(SlowRanks, ARankMayBeSlowFromTheStart) {
  Cluster cluster(2, 2);
  cluster.change = [&](size_t part, auto& times) {
    if (part == 0) {
      times[2] *= 1.5;
    }
  };
  EXPECT_EQ(cluster.run(20), Texts{"0 since 1"});
  EXPECT_EQ(cluster.found_at[0], 50);
  EXPECT_EQ(cluster.news[0].operations, OperationClass::memory);
}

TEST(SlowRanks, LessThanTenPercentIsNoNews) {
  Cluster cluster(4, 4);
  cluster.change = [&](size_t part, auto& times) {
    cluster.stretch(times, part == 2 ? 1.09 : 1.0);
  };
  EXPECT_EQ(cluster.run(40), Texts{});
}

TEST(SlowRanks, TellOnceThatItIsOver) {
  Cluster cluster(4, 4);
  cluster.change = [&](size_t part, auto& times) {
    if (part == 3 && cluster.block >= 10 && cluster.block < 30) {
      cluster.stretch(times, 2.0);
    }
  };
  EXPECT_EQ(cluster.run(60), (Texts{"3 since 101", "3 over since 301"}));
}

// Slow for two blocks of three: neither slow nor fast for five blocks.
TEST(SlowRanks, FlutterIsNoNews) {
  Cluster cluster(4, 4);
  cluster.change = [&](size_t part, auto& times) {
    if (part == 0 && cluster.block % 3 != 0) {
      cluster.stretch(times, 1.5);
    }
  };
  EXPECT_EQ(cluster.run(100), Texts{});
}

TEST(SlowRanks, ASlowRankThatFluttersIsNamedOnce) {
  Cluster cluster(4, 4);
  cluster.change = [&](size_t part, auto& times) {
    if (part == 0 && (cluster.block < 10 || cluster.block % 3 != 0)) {
      cluster.stretch(times, 1.5);
    }
  };
  EXPECT_EQ(cluster.run(100), Texts{"0 since 1"});
}

TEST(SlowRanks, NoiseIsNoNews) {
  for (const double size : {0.02, 0.1, 0.2}) {
    Cluster cluster(4, 2);
    Noise noise(size);
    cluster.change = [&](size_t, auto& times) { noise(times); };
    EXPECT_EQ(cluster.run(1000), Texts{}) << size;
  }
}

TEST(SlowRanks, ASlowRankStandsOutOfNoise) {
  Cluster cluster(4, 2);
  Noise noise(0.05);
  cluster.change = [&](size_t part, auto& times) {
    noise(times);
    if (part == 2 && cluster.block >= 20) {
      cluster.stretch(times, 1.5);
    }
  };
  EXPECT_EQ(cluster.run(60), Texts{"2 since 201"});
}

// The parts of ranks 0 and 1 are three times those of ranks 2 and 3, and reach 15 % more per flop.
TEST(SlowRanks, UnequalPartsAreNotSlow) {
  Cluster cluster(4, 4);
  for (const size_t rank : {0, 1}) {
    Cluster::stretch(cluster.parts[rank].expected, 3.0);
  }
  cluster.change = [&](size_t part, auto& times) {
    cluster.stretch(times, part == 0 || part == 1 ? 1.0 / 1.15 : 1.0);
  };
  EXPECT_EQ(cluster.run(40), Texts{});
  cluster.change = [&](size_t part, auto& times) { cluster.stretch(times, part == 0 ? 1.6 : 1.0); };
  EXPECT_EQ(cluster.run(40), Texts{"0 since 1"});
}

TEST(SlowRanks, RanksAreComparedWithTheirClass) {
  Cluster cluster(4, 4);
  for (const size_t rank : {2, 3}) {
    cluster.parts[rank].like = 1;
  }
  cluster.change = [&](size_t part, auto& times) {
    cluster.stretch(times, part == 2 || part == 3 ? 2.0 : 1.0);
  };
  EXPECT_EQ(cluster.run(40), Texts{});
}

TEST(SlowRanks, ARankWithoutOthersLikeItIsComparedWithItsPast) {
  Cluster cluster(3, 3);
  for (const size_t rank : {0, 1, 2}) {
    cluster.parts[rank].like = static_cast<int64_t>(rank);
  }
  cluster.change = [&](size_t part, auto& times) {
    const double usual = 1.0 + static_cast<double>(part);
    cluster.stretch(times, part == 1 && cluster.block >= 20 ? 1.5 * usual : usual);
  };
  EXPECT_EQ(cluster.run(40), Texts{"1 since 201"});
}

// All ranks and messages take twice as long, as on a machine that does other work, too.
TEST(SlowRanks, ABusyMachineHasNoSlowRank) {
  for (const bool alike : {true, false}) {
    Cluster cluster(3, 3);
    for (size_t rank = 0; rank < 3; ++rank) {
      cluster.parts[rank].like = alike ? 0 : static_cast<int64_t>(rank);
    }
    cluster.change = [&](size_t, auto& times) {
      cluster.stretch(times, cluster.block >= 20 ? 2.0 : 1.0);
    };
    EXPECT_EQ(cluster.run(60), Texts{}) << alike;
  }
}

TEST(SlowRanks, ALinkIsSlowerThanBefore) {
  Cluster cluster(4, 4);
  cluster.change = [&](size_t part, auto& times) {
    cluster.stretch(times, part == 4 && cluster.block >= 8 && cluster.block < 20 ? 1.8 : 1.0);
  };
  EXPECT_EQ(cluster.run(40), (Texts{"4 since 81", "4 over since 201"}));
  EXPECT_EQ(cluster.found_at[0], 130);
}

TEST(SlowRanks, ALinkIsSlowerThanThoseOfOtherGroups) {
  Cluster cluster(6, 2);
  cluster.change = [&](size_t part, auto& times) { cluster.stretch(times, part == 7 ? 1.8 : 1.0); };
  EXPECT_EQ(cluster.run(40), Texts{"7 since 1"});
}

// CPU ranks copy and add, so the messages of a slow rank take longer, too.
TEST(SlowRanks, ASlowRankIsNotASlowLink) {
  for (const int start : {0, 20}) {
    Cluster cluster(4, 2);
    cluster.change = [&](size_t part, auto& times) {
      if (cluster.block >= start && (part == 0 || part == 4)) {
        cluster.stretch(times, 1.8);
      }
    };
    EXPECT_EQ(cluster.run(60), Texts{"0 since " + std::to_string(10 * start + 1)});
  }
}

TEST(SlowRanks, MessagesThatTakeNoTimeAreNoNews) {
  Cluster cluster(4, 4);
  cluster.parts[4].expected = {1e-4};
  cluster.change = [&](size_t part, auto& times) {
    cluster.stretch(times, part == 4 && cluster.block >= 8 ? 1.8 : 1.0);
  };
  EXPECT_EQ(cluster.run(40), Texts{});
}

TEST(SlowRanks, APartMayHaveNoTimes) {
  Cluster cluster(2, 2);
  cluster.change = [&](size_t part, auto& times) {
    if (part == 2) {
      times[0] = std::numeric_limits<double>::quiet_NaN();
    }
    cluster.stretch(times, part == 1 ? 1.5 : 1.0);
  };
  cluster.parts[0].expected[1] = 0.0;  // no attention
  cluster.parts[1].expected[1] = 0.0;
  EXPECT_EQ(cluster.run(20), Texts{"1 since 1"});
}

// The rank stays slow under a program that gives it half of the work, and is fast again later.
TEST(SlowRanks, AreKnownUnderAnotherProgram) {
  const Cluster cluster(4, 4);
  SlowRanks watch(cluster.parts);
  int64_t step = 0;
  const auto run = [&](int blocks, double work, double slowness) {
    std::vector<SlowNews> news;
    for (int block = 0; block < blocks; ++block, step += 10) {
      WatchedBlock times{.first = step + 1, .last = step + 10, .step_s = kStepTime};
      for (const WatchedPart& part : cluster.parts) {
        times.times.push_back(part.expected);
      }
      Cluster::stretch(times.times[2], work * slowness);
      const std::vector<SlowNews> found = watch.add(times);
      news.insert(news.end(), found.begin(), found.end());
    }
    return news;
  };
  ASSERT_EQ(run(10, 1.0, 1.0).size(), 0);
  const std::vector<SlowNews> slow = run(6, 1.0, 2.0);
  ASSERT_EQ(slow.size(), 1);
  EXPECT_FALSE(slow[0].over);
  std::vector<WatchedPart> parts = cluster.parts;
  Cluster::stretch(parts[2].expected, 0.5);
  watch.go_on_with(parts);
  EXPECT_EQ(run(10, 0.5, 2.0).size(), 0);
  const std::vector<SlowNews> over = run(6, 0.5, 1.0);
  ASSERT_EQ(over.size(), 1);
  EXPECT_TRUE(over[0].over);
  EXPECT_EQ(over[0].part, 2);
}

}  // namespace
}  // namespace hidup
