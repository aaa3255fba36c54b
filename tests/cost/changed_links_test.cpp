// Scaled costs of changed links, against costs from the rates of such links.
#include "cost/changed_links.h"

#include <gtest/gtest.h>

#include <array>

#include "core/check.h"
#include "cost/cost_model.h"
#include "cost/roofline.h"

namespace hidup {
namespace {

Profile of_rates(int64_t ranks, double bandwidth) {
  return roofline_profile(
      {{"node", 2}, {"gpu", ranks}},
      {.flops = 1e12, .memory_bandwidth = 1e11, .links = {{1e8, 1e-4}, {bandwidth, 1e-5}}});
}

constexpr std::array kCollectives = {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter,
                                     Opcode::all_to_all, Opcode::broadcast,  Opcode::move,
                                     Opcode::slice};

void expect_alike(const Profile& found, const Profile& wanted) {
  EXPECT_EQ(found.key.mesh[1].size, wanted.key.mesh[1].size);
  const CostModel costs(found);
  const CostModel expected(wanted);
  for (const Opcode opcode : kCollectives) {
    for (const size_t axis : {0, 1}) {
      for (const double bytes : {1.0, 3e3, 1e6, 7e8}) {
        EXPECT_NEAR(costs.collective(opcode, axis, bytes).alone_s /
                        expected.collective(opcode, axis, bytes).alone_s,
                    1.0, 5e-3)
            << name_of(opcode) << " of " << bytes << " along " << axis;
      }
    }
  }
}

TEST(ChangedLinks, OfTwiceTheBandwidth) {
  expect_alike(with_bandwidth(of_rates(4, 1e9), 1, 2.0), of_rates(4, 2e9));
}

TEST(ChangedLinks, OfMoreRanks) {
  expect_alike(with_ranks(of_rates(4, 1e9), 1, 8), of_rates(8, 1e9));
  expect_alike(with_ranks(of_rates(2, 1e9), 1, 16), of_rates(16, 1e9));
  EXPECT_THROW(with_ranks(of_rates(1, 1e9), 1, 2), Error);
}

// Measured times need not lie on a line, and computation slows messages.
TEST(ChangedLinks, OfMeasuredTimes) {
  Profile profile = of_rates(4, 1e9);
  profile.collectives = {
      {.opcode = Opcode::all_gather,
       .axis = 1,
       .latency_s = 1e-4,
       .bandwidth = 1e6,
       .table = {
           {64.0, 1e-4, 2e-4, 1.5}, {256.0, 0.9e-4, 2e-4, 1.25}, {1e6, 1.1e-3, 2.2e-3, 1.125}}}};
  const CollectiveTimes faster = with_bandwidth(profile, 1, 2.0).collectives[0];
  EXPECT_DOUBLE_EQ(faster.latency_s, 1e-4);
  EXPECT_DOUBLE_EQ(faster.bandwidth, 2e6);
  EXPECT_DOUBLE_EQ(faster.table[0].alone_s, 1e-4);
  EXPECT_DOUBLE_EQ(faster.table[1].alone_s, 1e-4);  // at least the time of the smallest message
  EXPECT_DOUBLE_EQ(faster.table[2].alone_s, 0.6e-3);
  EXPECT_DOUBLE_EQ(faster.table[2].beside_s, 1.2e-3);
  EXPECT_DOUBLE_EQ(faster.table[2].slowdown, 1.125);
  // Ranks send 7/8 of the bytes instead of 3/4, and messages are three deep instead of two.
  const CollectiveTimes more = with_ranks(profile, 1, 8).collectives[0];
  EXPECT_DOUBLE_EQ(more.table[2].alone_s, 1.5e-4 + 1e-3 * 7.0 / 6.0);
}

}  // namespace
}  // namespace hidup
