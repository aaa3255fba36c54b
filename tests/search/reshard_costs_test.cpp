#include "search/problem/reshard_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost/roofline.h"

namespace hidup {
namespace {

// Returns layouts of two axes, each whole, in parts or a summand; the inner one also by its share.
std::vector<Layout> layouts() {
  const std::vector<Placement> placements = {Placement::replicate(), Placement::shard(0),
                                             Placement::shard(1), Placement::partial()};
  std::vector<Layout> all;
  for (const Placement& outer : placements) {
    for (const Placement& inner : placements) {
      all.push_back({outer, inner});
    }
    all.push_back({outer, Placement::shard(0, ShareNumber::of(1))});
  }
  return all;
}

bool is_total(const Layout& layout) {
  return std::ranges::none_of(layout, &Placement::is_partial);
}

// A cached cost of one reshard is used for no other.
TEST(ReshardCosts, OfEveryReshardAreItsOwn) {
  const Mesh mesh = {{"node", 2}, {"gpu", 3, {{4, 1, 1}}}};
  const CostModel model(roofline_profile(
      mesh,
      {.flops = 1e12,
       .memory_bandwidth = 1e10,
       .links = {{.bandwidth = 1e9, .latency_s = 5e-6}, {.bandwidth = 1e10, .latency_s = 1e-6}}}));
  const ReshardCosts shared(mesh, model);
  int different = 0;
  double last_s = 0.0;
  for (const Layout& from : layouts()) {
    for (const Value& value : std::vector<Value>{
             {.dtype = DType::f32, .shape = {70, 32}, .layout = from},
             {.dtype = DType::bf16, .shape = {70, 32}, .layout = from},
             {.dtype = DType::f32, .shape = {32, 70}, .layout = from},
             {.dtype = DType::f32, .shape = {2, 32}, .layout = from, .batch = {0, 0, 70}},
             {.dtype = DType::f32, .shape = {2, 32}, .layout = from, .batch = {0, 2, 70}}}) {
      for (const Layout& to : layouts()) {
        for (const bool several : {false, true}) {
          if (!is_total(to)) {
            continue;
          }
          const Reshard known = shared.cheapest(value, to, several);
          const Reshard own = ReshardCosts(mesh, model).cheapest(value, to, several);
          EXPECT_EQ(known.comm_s, own.comm_s) << to_string(from) << " " << to_string(to);
          EXPECT_EQ(known.compute_s, own.compute_s) << to_string(from) << " " << to_string(to);
          different += own.comm_s + own.compute_s != last_s ? 1 : 0;
          last_s = own.comm_s + own.compute_s;
        }
      }
    }
  }
  EXPECT_GT(different, 500);  // of 2,400
}

}  // namespace
}  // namespace hidup
