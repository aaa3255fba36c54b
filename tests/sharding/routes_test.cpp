#include "sharding/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hidup {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

const Placement kWhole = Placement::replicate();
const Placement kSum = Placement::partial();
const Placement kRows = Placement::shard(0);
const Placement kColumns = Placement::shard(1);

const Mesh kTwo = {{"node", 2}, {"gpu", 3}};

std::vector<std::string> texts(const Layout& from, const Layout& to, const Mesh& mesh = kTwo) {
  std::vector<std::string> found;
  for (const Route& route : reshard_routes(from, to, mesh)) {
    found.push_back(to_string(route, mesh));
  }
  return found;
}

TEST(ReshardRoutes, OfSums) {
  EXPECT_THAT(texts({kSum, kSum}, {kWhole, kWhole}),
              ElementsAre("all_reduce node, all_reduce gpu", "all_reduce node+gpu",
                          "all_reduce node*gpu", "all_reduce gpu, all_reduce node"));
}

TEST(ReshardRoutes, OfShardsOfOneDimension) {
  EXPECT_THAT(
      texts({kRows, kRows}, {kWhole, kWhole}),
      ElementsAre("all_gather gpu, all_gather node", "all_gather node+gpu", "all_gather node*gpu"))
      << "the inner one lies in the outer one";
  EXPECT_THAT(texts({kSum, kSum}, {kRows, kRows}),
              ElementsAre("reduce_scatter node, reduce_scatter gpu", "reduce_scatter node+gpu",
                          "reduce_scatter node*gpu",
                          "reduce_scatter gpu, all_gather gpu, reduce_scatter node, slice gpu"));
}

TEST(ReshardRoutes, OfShardsOfTwoDimensionsInAnyOrder) {
  EXPECT_THAT(texts({kRows, kColumns}, {kWhole, kWhole}),
              ElementsAre("all_gather node, all_gather gpu", "all_gather gpu, all_gather node"));
  EXPECT_THAT(texts({kRows, kSum}, {kWhole, kWhole}), Contains("all_reduce gpu, all_gather node"));
}

TEST(ReshardRoutes, OfAThirdAxisInside) {
  const Mesh mesh = {{"pod", 2}, {"node", 2}, {"gpu", 2}};
  EXPECT_THAT(texts({kRows, kRows, kRows}, {kWhole, kWhole, kRows}, mesh),
              Not(Contains("all_gather pod+node")))
      << "gpu cuts inside of both";
  EXPECT_THAT(texts({kRows, kRows, kRows}, {kWhole, kWhole, kWhole}, mesh),
              Contains("all_gather pod+node+gpu"));
  EXPECT_THAT(texts({kSum, kRows, kSum}, {kWhole, kRows, kWhole}, mesh),
              Contains("all_reduce pod+gpu"));
}

TEST(ReshardRoutes, AxesOfOneRankChangeByThemselves) {
  const Mesh mesh = {{"node", 1}, {"gpu", 3}};
  EXPECT_THAT(texts({kSum, kSum}, {kWhole, kWhole}, mesh), Not(Contains("all_reduce node+gpu")));
}

TEST(ReshardRoutes, OfUnequalSharesGoByAxis) {
  Mesh mesh = kTwo;
  mesh[1].shares = {{2, 1, 0}};
  const Layout from = {kSum, Placement::partial(ShareNumber::of(1))};
  EXPECT_EQ(reshard_routes(from, {kWhole, kWhole}, mesh).size(), 1U);
}

TEST(ReshardRoutes, OfShardsThatChangeOnSeveralAxes) {
  EXPECT_THAT(texts({kRows, kRows}, {kColumns, kColumns}),
              ElementsAre("all_gather gpu, all_to_all node, slice gpu", "all_to_all node+gpu",
                          "all_to_all node*gpu",
                          "all_to_all gpu, all_gather gpu, all_to_all node, slice gpu"));
  EXPECT_THAT(texts({kRows, kRows}, {kColumns, kRows}), Contains("all_to_all node*gpu"))
      << "gpu cuts anew what node cut before";
  EXPECT_THAT(texts({kRows, kRows}, {kRows, kColumns}), ElementsAre("all_to_all gpu"));
  EXPECT_THAT(texts({kRows, kWhole}, {kColumns, kColumns}),
              Contains("slice gpu, all_to_all node+gpu"));
  EXPECT_THAT(texts({kColumns, kColumns}, {kRows, kWhole}),
              Contains("all_to_all node*gpu, all_gather gpu"));
}

TEST(ReshardRoutes, AnExchangeLeavesNoAxisOut) {
  const Mesh mesh = {{"pod", 2}, {"node", 2}, {"gpu", 2}};
  EXPECT_THAT(texts({kRows, kRows, kRows}, {kColumns, kColumns, kRows}, mesh),
              AllOf(Contains("all_to_all pod*node*gpu"), Not(Contains("all_to_all pod*node"))));
  EXPECT_THAT(texts({kRows, kRows, kWhole}, {kColumns, kColumns, kWhole}, mesh),
              Contains("all_to_all pod+node"));
}

TEST(ReshardRoutes, OfUnequalSharesMayExchangeAtOnce) {
  Mesh mesh = kTwo;
  mesh[1].shares = {{2, 1, 0}};
  const Placement uneven = Placement::shard(0, ShareNumber::of(1));
  const std::vector<std::string> found = texts({kRows, uneven}, {kColumns, kColumns}, mesh);
  EXPECT_EQ(found.size(), 3U);
  EXPECT_THAT(found, AllOf(Contains("all_to_all node+gpu"), Contains("all_to_all node*gpu")));
}

// On three axes, routes between all layouts of two dimensions are tried.
TEST(ReshardRoutes, LeadThereOnceEach) {
  const Mesh mesh = {{"pod", 2}, {"node", 2}, {"gpu", 2}};
  const std::vector<Placement> kinds = {kWhole, kSum, kRows, kColumns};
  std::vector<Layout> layouts;
  for (const Placement& a : kinds) {
    for (const Placement& b : kinds) {
      for (const Placement& c : kinds) {
        layouts.push_back({a, b, c});
      }
    }
  }
  size_t joint = 0;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      const std::vector<Route> routes = reshard_routes(from, to, mesh);
      ASSERT_FALSE(routes.empty());
      EXPECT_EQ(routes[0], reshard_steps(from, to, mesh));
      for (const Route& route : routes) {
        EXPECT_EQ(route.empty() ? from : route.back().to, to);
        EXPECT_EQ(std::ranges::count(routes, route), 1);
        for (const ReshardStep& step : route) {
          EXPECT_TRUE(step.inner.empty() || can_be_joint(step.kind));
          joint += step.inner.empty() ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(joint, 300U);
}

TEST(ChosenRoute, IsThatOfTheMostBytesThatFit) {
  const Layout from = {kSum, kSum};
  const Layout to = {kWhole, kWhole};
  const std::vector<Route> routes = reshard_routes(from, to, kTwo);
  const std::vector<RouteChoice> choices = {
      {from, to, 1000.0, routes[2]}, {from, to, 10.0, routes[1]}, {to, from, 0.0, {}}};
  EXPECT_EQ(chosen_route(choices, from, to, 9.0, kTwo), routes[0]);
  EXPECT_EQ(chosen_route(choices, from, to, 10.0, kTwo), routes[1]);
  EXPECT_EQ(chosen_route(choices, from, to, 999.0, kTwo), routes[1]);
  EXPECT_EQ(chosen_route(choices, from, to, 1e9, kTwo), routes[2]);
}

}  // namespace
}  // namespace hidup
