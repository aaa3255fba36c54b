// Which ranks become neighbours on the mesh (app/rank_order.h).
#include "app/rank_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace hidup {
namespace {

using Ranks = std::vector<int>;

// Returns ranks on hosts with these letters.
std::vector<RankSite> on_hosts(std::string_view letters) {
  std::vector<RankSite> sites;
  for (const char letter : letters) {
    sites.push_back({.host = std::string(1, letter), .switches = "", .device = 0});
  }
  return sites;
}

// Returns ranks on nodes with these addresses in Slurm's topology.
std::vector<RankSite> below_switches(const std::vector<std::string>& addresses) {
  std::vector<RankSite> sites;
  for (const std::string& address : addresses) {
    sites.push_back({address.substr(address.rfind('.') + 1), address, 0});
  }
  return sites;
}

void expect_kept(const std::vector<RankSite>& sites, const Mesh& mesh) {
  const RankOrder order = order_of_ranks(sites, mesh);
  EXPECT_EQ(order.reason, "");
  Ranks given(sites.size());
  std::iota(given.begin(), given.end(), 0);
  EXPECT_EQ(order.ranks, given);
}

const Mesh kNodes = {{.name = "node", .size = 2}, {.name = "gpu", .size = 2}};

TEST(OrderOfRanks, KeepsHostsTogether) {
  const RankOrder order = order_of_ranks(on_hosts("ABAB"), kNodes);
  EXPECT_EQ(order.ranks, (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(describe(order),
            "cluster.order: ranks of a host are neighbours along gpu: order 0 2 1 3");
}

TEST(OrderOfRanks, StaysWhereHostsAreInOrder) {
  expect_kept(on_hosts("AABB"), kNodes);
  expect_kept(on_hosts("BBAA"), kNodes);
  expect_kept(on_hosts("AAAA"), kNodes);
  expect_kept(on_hosts("ABCD"), kNodes);
  expect_kept(on_hosts("A"), {{.name = "ranks", .size = 1}});
}

TEST(OrderOfRanks, StaysWhereAnotherOneIsNotBetter) {
  expect_kept(on_hosts("AABA"), kNodes);  // two ranks of a host are neighbours either way
}

TEST(OrderOfRanks, OneAxisCountsNeighboursInItsRing) {
  const Mesh ranks = {{.name = "ranks", .size = 4}};
  EXPECT_EQ(order_of_ranks(on_hosts("ABAB"), ranks).ranks, (Ranks{0, 2, 1, 3}));
  expect_kept(on_hosts("ABBA"), ranks);  // it crosses as often as AABB
}

TEST(OrderOfRanks, InnermostAxisComesFirst) {
  const Mesh mesh = {
      {.name = "pod", .size = 2}, {.name = "node", .size = 2}, {.name = "gpu", .size = 2}};
  const RankOrder order = order_of_ranks(on_hosts("AABBAABB"), mesh);
  EXPECT_EQ(order.ranks, (Ranks{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(order.reason, "ranks of a host are neighbours along node");
}

// A deck that names its fast axis first numbers the ranks along it with the larger stride.
TEST(OrderOfRanks, FastestAxisMayBeTheDecksFirst) {
  const Mesh mesh = {{.name = "node", .size = 2, .numbered = 1},
                     {.name = "gpu", .size = 2, .numbered = 0}};
  expect_kept(on_hosts("ABAB"), mesh);
  EXPECT_EQ(order_of_ranks(on_hosts("AABB"), mesh).ranks, (Ranks{0, 2, 1, 3}));
}

TEST(OrderOfRanks, HostsOfASwitchComeTogether) {
  const Mesh mesh = {
      {.name = "leaf", .size = 2}, {.name = "node", .size = 2}, {.name = "gpu", .size = 1}};
  const RankOrder order =
      order_of_ranks(below_switches({"top.s0.n0", "top.s1.n1", "top.s0.n2", "top.s1.n3"}), mesh);
  EXPECT_EQ(order.ranks, (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(order.reason, "hosts of a switch are neighbours along node");
  // Without Slurm's plugin the address is the host's name.
  expect_kept(below_switches({"n0", "n1", "n2", "n3"}), mesh);
}

TEST(OrderOfRanks, SwitchesHaveAnyDepth) {
  const Mesh ranks = {{.name = "ranks", .size = 4}};
  EXPECT_EQ(order_of_ranks(below_switches({"a.x.n0", "b.n1", "a.y.n2", "b.n3"}), ranks).ranks,
            (Ranks{0, 2, 1, 3}));
}

TEST(OrderOfRanks, DevicesOfAClassComeTogether) {
  std::vector<RankSite> sites = on_hosts("AABBCCDD");
  for (const size_t rank : {2, 3, 6, 7}) {
    sites[rank].device = 1;
  }
  const Mesh mesh = {
      {.name = "kind", .size = 2}, {.name = "node", .size = 2}, {.name = "gpu", .size = 2}};
  const RankOrder order = order_of_ranks(sites, mesh);
  EXPECT_EQ(order.ranks, (Ranks{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(order.reason, "devices of a class are neighbours along node");
}

TEST(OrderOfRanks, LongOrdersAreCut) {
  std::string letters;
  for (int pair = 0; pair < 50; ++pair) {
    letters += "AB";
  }
  const std::string line =
      describe(order_of_ranks(on_hosts(letters), {{.name = "ranks", .size = 100}}));
  EXPECT_THAT(line, testing::EndsWith(" 25 27 ..."));
}

// Any order is a permutation that begins with rank 0, and a second look changes nothing.
TEST(OrderOfRanks, IsFinal) {
  const Mesh mesh = {{.name = "pod", .size = 3, .numbered = 2},
                     {.name = "node", .size = 2, .numbered = 0},
                     {.name = "gpu", .size = 4, .numbered = 1}};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<RankSite> sites;
    for (uint64_t rank = 0; rank < 24; ++rank) {
      const int host = static_cast<int>((rank * 7 + seed * (rank + 3) * (rank + 1)) % 6);
      sites.push_back({std::string(1, static_cast<char>('A' + host)),
                       "s" + std::to_string(host % 2) + ".n", static_cast<size_t>(host / 4)});
    }
    const RankOrder order = order_of_ranks(sites, mesh);
    EXPECT_EQ(order.ranks[0], 0);
    Ranks sorted = order.ranks;
    std::ranges::sort(sorted);
    Ranks all(24);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    std::vector<RankSite> moved;
    for (const int rank : order.ranks) {
      moved.push_back(sites[static_cast<size_t>(rank)]);
    }
    expect_kept(moved, mesh);
  }
}

}  // namespace
}  // namespace hidup
