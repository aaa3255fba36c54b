#include "search/problem/reshard_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost/duration.h"
#include "cost/roofline.h"
#include "program/packing.h"
#include "sharding/routes.h"

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
        for (const Sending how :
             {Sending{}, Sending{.several = true}, Sending{.several = true, .sums_as = DType::bf16},
              Sending{.several = true, .sums_as = DType::f16}}) {
          if (!is_total(to)) {
            continue;
          }
          const Reshard known = shared.cheapest(value, to, how);
          const Reshard own = ReshardCosts(mesh, model).cheapest(value, to, how);
          EXPECT_EQ(known.comm_s, own.comm_s) << to_string(from) << " " << to_string(to);
          EXPECT_EQ(known.compute_s, own.compute_s) << to_string(from) << " " << to_string(to);
          different += own.comm_s + own.compute_s != last_s ? 1 : 0;
          last_s = own.comm_s + own.compute_s;
        }
      }
    }
  }
  EXPECT_GT(different, 500);  // of 4,800
}

// Parts in proportion to the paces take all ranks equally long. Equal parts, and copies of the
// whole, take as long as on the slowest rank.
TEST(ReshardCosts, OfOperationsAreThoseOfTheirRanks) {
  const Mesh mesh = {{"ranks", 3, {{4, 2, 1}}}};
  const CostModel model(roofline_profile(
      mesh,
      {.flops = 1e12, .memory_bandwidth = 1e9, .links = {{.bandwidth = 1e9, .latency_s = 5e-6}}}));
  const RankCosts ranks = RankCosts(model).slower({1.0, 2.0, 4.0});
  const auto seconds = [&](const Placement& placement, const RankCosts* of_ranks) {
    const Value rows{.dtype = DType::f32, .shape = {84, 1000}, .layout = {placement}};
    const Program program{.mesh = with_equal_shares(mesh), .values = {rows, rows}};
    const Instruction relu{.opcode = Opcode::relu, .inputs = {0}, .outputs = {1}};
    return ReshardCosts(mesh, model, of_ranks).operation_s(program, relu);
  };
  const Placement unequal = Placement::shard(0, ShareNumber::of(1));
  const double row_s = seconds(Placement::replicate(), nullptr) / 84;
  EXPECT_NEAR(seconds(unequal, &ranks), 48 * row_s, 1e-9 * row_s);
  EXPECT_NEAR(seconds(Placement::shard(0), &ranks), 4 * 28 * row_s, 1e-9 * row_s);
  EXPECT_NEAR(seconds(Placement::replicate(), &ranks), 4 * 84 * row_s, 1e-9 * row_s);
  EXPECT_NEAR(seconds(unequal, nullptr), 48 * row_s, 1e-9 * row_s);
  EXPECT_NEAR(seconds(Placement::shard(0), nullptr), 28 * row_s, 1e-9 * row_s);

  const Mesh alike = {{"ranks", 3}};  // without shares, the first rank stands for all parts
  const Value rows{.dtype = DType::f32, .shape = {84, 1000}, .layout = {Placement::shard(0)}};
  const Program program{.mesh = alike, .values = {rows, rows}};
  const Instruction relu{.opcode = Opcode::relu, .inputs = {0}, .outputs = {1}};
  EXPECT_NEAR(ReshardCosts(alike, model, &ranks).operation_s(program, relu), 4 * 28 * row_s,
              1e-9 * row_s);
}

// A sum of gradients counts as in a program: by duration_of(), and what both streams wait.
TEST(ReshardCosts, OfRoundedSumsAreThoseOfTheirInstructions) {
  const Mesh mesh = {{"node", 2}, {"gpu", 4}};
  const CostModel model(roofline_profile(
      mesh,
      {.flops = 1e12,
       .memory_bandwidth = 1e11,
       .links = {{.bandwidth = 1e9, .latency_s = 5e-6}, {.bandwidth = 1e10, .latency_s = 1e-6}}}));
  const ReshardCosts costs(mesh, model);
  const Layout sums = {Placement::partial(), Placement::partial()};
  const Value value{.dtype = DType::f32, .shape = {4096, 1024}, .layout = sums};
  for (const Layout& to : {Layout{Placement::replicate(), Placement::replicate()},
                           Layout{Placement::shard(0), Placement::shard(0)}}) {
    for (const Route& route : reshard_routes(sums, to, mesh)) {
      if (route.size() > 1) {
        continue;
      }
      const auto instruction_with = [&](Program& program, std::optional<DType> sent_as) {
        Instruction sum{.opcode = opcode_of(route[0].kind),
                        .name = "sum",
                        .axis = static_cast<int>(route[0].axis),
                        .inner_axes = {route[0].inner.begin(), route[0].inner.end()},
                        .flat = route[0].flat,
                        .inputs = {0},
                        .outputs = {1}};
        round_sums(mesh, sum, value.dtype, sent_as);
        const Packing packing = packing_of(sum.opcode, true, reorders_parts(mesh, sum), value.shape,
                                           sums[route[0].axis], to[route[0].axis]);
        if (packing.sent) {
          program.values.push_back({.name = "send", .holds = {0}});
          sum.outputs.push_back(2);
        }
        if (packing.received) {
          program.values.push_back({.name = "receive", .holds = {1}});
          sum.outputs.push_back(static_cast<ValueId>(program.values.size() - 1));
        }
        if (sent_as) {
          program.values.push_back(buffer_of_sums(sum, {1}));
          sum.outputs.push_back(static_cast<ValueId>(program.values.size() - 1));
        }
        return sum;
      };
      double wide_s = 0.0;
      for (const std::optional<DType> sent_as :
           {std::optional<DType>(), std::optional(DType::bf16)}) {
        Value total = value;
        total.layout = to;
        Program program{.mesh = mesh, .values = {value, total}};
        const Instruction sum = instruction_with(program, sent_as);
        const double around = model.launch_s() + 2.0 * model.signal_s();
        const Reshard cost = costs.along(route, value, {.several = true, .sums_as = sent_as});
        EXPECT_NEAR(cost.comm_s, duration_of(program, model, sum, 0).alone_s + around,
                    1e-9 * cost.comm_s)
            << to_string(route, mesh) << " " << sent_as.has_value();
        wide_s = sent_as ? wide_s : cost.comm_s;
        if (!route[0].flat) {  // a flat sum that rounds is hierarchical
          EXPECT_LE(cost.comm_s, sent_as ? 0.9 * wide_s : wide_s) << to_string(route, mesh);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hidup
