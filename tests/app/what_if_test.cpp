// Gains from one change, which equal those that a search for the changed cluster finds.
#include "app/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "app/costs.h"
#include "app/run_search.h"
#include "core/check.h"
#include "setting.h"
#include "sharding/hints.h"
#include "small_decks.h"

namespace hidup {
namespace {

Setting changed(Setting setting, const Mesh& mesh, std::optional<size_t> twice_as_fast) {
  setting.mesh = mesh;
  if (twice_as_fast) {
    setting.machine.links[*twice_as_fast].bandwidth *= 2.0;
  }
  return setting;
}

WhatIfReport report_of(const Setting& setting) {
  const CostsOf costs_of = [&](const Mesh& mesh, std::optional<size_t> twice_as_fast) {
    return std::optional(changed(setting, mesh, twice_as_fast).costs());
  };
  const Hints& hints = setting.options.hints;
  const CostModel costs = setting.costs();
  return what_if({setting.graph(), hints.empty() ? setting.mesh : hints.mesh, setting.options,
                  costs, RankCosts(costs), costs_of});
}

const WhatIf& find(const WhatIfReport& report, const std::string& what) {
  const auto found = std::ranges::find(report.changes, what, &WhatIf::what);
  if (found == report.changes.end()) {
    fail(ExitCode::internal, "no change is called {}", what);
  }
  return *found;
}

void expect_step(const WhatIfReport& report, const std::string& what, double seconds) {
  const WhatIf& change = find(report, what);
  EXPECT_TRUE(change.feasible) << what;
  EXPECT_DOUBLE_EQ(change.seconds, seconds) << what;
  EXPECT_DOUBLE_EQ(change.gain, 1.0 - seconds / report.now_s) << what;
  EXPECT_GE(change.at_most, change.gain) << what;
}

double step_of(Setting setting) {
  setting.options.baselines = false;
  return setting.search().step.seconds();
}

Setting two_axes() {
  Setting setting = quick_setting();
  setting.mesh = {{"node", 2}, {"core", 2}};
  setting.machine.links = {{.bandwidth = 1e9, .latency_s = 5e-6}, setting.machine.links[0]};
  return setting;
}

// Returns the text of each change, in order.
std::vector<std::string> changes_of(const WhatIfReport& report) {
  std::vector<std::string> texts;
  for (const WhatIf& change : report.changes) {
    texts.push_back(change.what);
  }
  return texts;
}

TEST(WhatIf, LinksAndRanksAreThoseOfAChangedCluster) {
  const Setting setting = two_axes();
  const WhatIfReport report = report_of(setting);
  EXPECT_EQ(changes_of(report),
            (std::vector<std::string>{"bandwidth of axis node x 2", "bandwidth of axis core x 2",
                                      "ranks along axis node x 2", "ranks along axis core x 2",
                                      "train.gradients bf16"}));
  EXPECT_DOUBLE_EQ(report.now_s, step_of(setting));
  for (const size_t axis : {0, 1}) {
    const double faster = step_of(changed(setting, setting.mesh, axis));
    expect_step(report, "bandwidth of axis " + setting.mesh[axis].name + " x 2",
                std::min(faster, report.now_s));
    Mesh more = setting.mesh;
    more[axis].size *= 2;
    expect_step(report, "ranks along axis " + more[axis].name + " x 2",
                step_of(changed(setting, more, std::nullopt)));
  }
  EXPECT_GT(find(report, "bandwidth of axis node x 2").gain, 0.0);
  EXPECT_EQ(find(report, "ranks along axis core x 2").kind, "ranks");
  EXPECT_EQ(find(report, "ranks along axis core x 2").of, "core");
}

// On one rank none are sent, and in 16 bits they are sent already.
TEST(WhatIf, GradientsInBf16HaveAPrice) {
  Setting setting = two_axes();
  const WhatIfReport report = report_of(setting);
  Setting narrow = setting;
  narrow.options.lowering.gradients_as = DType::bf16;
  expect_step(report, "train.gradients bf16", step_of(narrow));
  EXPECT_GT(find(report, "train.gradients bf16").gain, 0.0);
  EXPECT_EQ(find(report, "train.gradients bf16").kind, "gradients");
  Setting alone = setting;
  alone.mesh = {{"node", 1}, {"core", 1}};
  for (const Setting& other : {narrow, alone}) {
    for (const WhatIf& change : report_of(other).changes) {
      EXPECT_NE(change.kind, "gradients");
    }
  }
}

TEST(WhatIf, MemoryCountsWhereItIsShort) {
  Setting setting = quick_setting();
  setting.options.memory_limit = 2'600'000;
  const WhatIfReport report = report_of(setting);
  Setting free = setting;
  free.options.memory_limit *= 2;
  expect_step(report, "memory x 2", step_of(free));
  EXPECT_GT(find(report, "memory x 2").gain, 0.0);
}

// An axis of one rank has no link that counts.
TEST(WhatIf, WhatIsNotKnownIsSaid) {
  Setting setting = two_axes();
  setting.mesh[0].size = 1;
  const CostsOf costs_of = [&](const Mesh& mesh,
                               std::optional<size_t>) -> std::optional<CostModel> {
    return mesh[0].size == 1 ? std::optional(setting.costs()) : std::nullopt;
  };
  const CostModel costs = setting.costs();
  const WhatIfReport report =
      what_if({setting.graph(), setting.mesh, setting.options, costs, RankCosts(costs), costs_of});
  EXPECT_EQ(changes_of(report),
            (std::vector<std::string>{"bandwidth of axis core x 2", "ranks along axis node x 2",
                                      "ranks along axis core x 2", "train.gradients bf16"}));
  const WhatIf& unknown = find(report, "ranks along axis node x 2");
  EXPECT_FALSE(unknown.feasible);
  EXPECT_EQ(unknown.reason, "how long messages along it take is not known");
  EXPECT_EQ(unknown.seconds, 0.0);
}

TEST(WhatIf, EveryHintHasItsPrice) {
  Setting setting = quick_setting();
  setting.options.hints = read_hints(setting.graph(), setting.mesh, R"(
microbatches: 2
accumulate: 2
operations:
  - {op: "layers.*.ffn.up", rule: [replicate]}
  - {op: "layers.*.ffn.down", rule: [replicate]}
  - {op: "layers.*.ffn.relu", recompute: true}
parameters:
  - {name: "layers.*.ffn.up.weight", storage: [R]}
  - {name: head.weight, reshard_after_forward: true}
)",
                                     "h.yaml");
  const WhatIfReport report = report_of(setting);
  EXPECT_DOUBLE_EQ(report.now_s, step_of(setting));
  std::vector<std::string> hints;
  for (const WhatIf& change : report.changes) {
    if (change.kind == "hint") {
      hints.push_back(change.of);
      EXPECT_EQ(change.what, "without " + change.of);
      EXPECT_GE(change.gain, 0.0) << change.of;
    }
  }
  EXPECT_EQ(hints,
            (std::vector<std::string>{
                "2 microbatch(es)", "2 group(s) of microbatches", "layers.*.ffn.up by replicate",
                "layers.*.ffn.down by replicate", "layers.*.ffn.up.weight stored as [R]",
                "recompute", "reshard_after_forward"}));
  Setting free = setting;
  for (size_t op = 0; op < free.options.hints.ops.size(); ++op) {
    if (free.graph().op_name(static_cast<OpId>(op)).ends_with("ffn.up")) {
      free.options.hints.ops[op].rules[0].reset();
    }
  }
  expect_step(report, "without layers.*.ffn.up by replicate", step_of(free));
  EXPECT_GT(find(report, "without layers.*.ffn.up by replicate").gain, 0.0);
  Setting in_one = setting;
  in_one.options.hints.accumulate.reset();
  expect_step(report, "without 2 group(s) of microbatches", step_of(in_one));
}

TEST(WhatIf, TheOnlyNumberOfMicrobatchesIsAHint) {
  Setting setting = quick_setting();
  setting.options.microbatches = {4};
  Setting free = setting;
  free.options.microbatches = {1, 2, 4};
  expect_step(report_of(setting), "without train.microbatches 4", step_of(free));
}

// A share has one weight for each rank of today's mesh.
TEST(WhatIf, SharesAreOfTheirRanks) {
  Setting setting = quick_setting();
  setting.options.hints = read_hints(setting.graph(), setting.mesh,
                                     "format_version: 2\n"
                                     "shares: {ranks: [[2, 1, 1, 1]]}\n"
                                     "operations: [{op: '*.ffn.up', rule: [batch%1]}]\n",
                                     "h.yaml");
  const WhatIfReport report = report_of(setting);
  const WhatIf& more = find(report, "ranks along axis ranks x 2");
  EXPECT_FALSE(more.feasible);
  EXPECT_EQ(more.reason, "the hints have a share for each of its ranks");
}

// Decks with a fast device and two slow ones, which get unequal parts.
struct UnequalDevices {
  explicit UnequalDevices(const std::string& bandwidth, const std::string& fast = "400GFLOPS",
                          const std::string& gradients = "model",
                          const std::string& memory = "2GiB", const std::string& others = "1GiB")
      : input(SmallDecks().read(
            {"model.hidden=64", "model.sequence=32", "train.batch=24",
             "train.gradients=" + gradients,
             "cluster.mesh=[{name: ranks, size: 3, bandwidth: " + bandwidth + ", latency: 5us}]",
             "cluster.devices=[{count: 1, flops: " + fast + ", memory: " + memory +
                 "}, "
                 "{count: 2, flops: 100GFLOPS, memory: " +
                 others + "}]"})),
        profile(costs_without_ranks(input.deck, input.mesh)),
        options(search_options(input.deck, input.graph, input.mesh, "")) {
    options.time_limit_s = 0.0;
    options.baselines = false;
    options.microbatches = {1, 2};
  }

  double step() const {
    return search_for(input.deck, input.graph, input.mesh, profile, options).step.seconds();
  }
  WhatIfReport report() const {
    const CostModel balanced(balanced_costs(input.deck, input.mesh, profile));
    const RankCosts ranks = rank_costs(input.deck, input.mesh, profile);
    return what_if(
        {input.graph, input.mesh, options, balanced, ranks, costs_of_changes(input.deck, profile)});
  }

  PlanningInput input;
  Profile profile;
  SearchOptions options;
};

TEST(WhatIf, DevicesStayUnequal) {
  const UnequalDevices now("200MB/s");
  const WhatIfReport report = now.report();
  EXPECT_DOUBLE_EQ(report.now_s, now.step());
  EXPECT_LT(report.now_s, 0.99 * UnequalDevices("200MB/s", "100GFLOPS").step());
  const double faster = UnequalDevices("400MB/s").step();
  EXPECT_LT(faster, 0.99 * report.now_s);
  expect_step(report, "bandwidth of axis ranks x 2", faster);
  expect_step(report, "memory x 2", report.now_s);
  expect_step(report, "train.gradients bf16",
              UnequalDevices("200MB/s", "400GFLOPS", "bf16").step());
  const WhatIf& more = find(report, "ranks along axis ranks x 2");
  EXPECT_FALSE(more.feasible);
  EXPECT_EQ(more.reason, "cluster.devices does not say which devices they have");
}

// The fast device has four times the memory of the others, which is short.
TEST(WhatIf, MemoryStaysUnequal) {
  const auto with = [](const char* bandwidth, const char* memory, const char* others) {
    return UnequalDevices(bandwidth, "400GFLOPS", "model", memory, others);
  };
  const UnequalDevices now = with("200MB/s", "4MiB", "1MiB");
  const WhatIfReport report = now.report();
  EXPECT_DOUBLE_EQ(report.now_s, now.step());
  const double faster = with("400MB/s", "4MiB", "1MiB").step();
  EXPECT_LT(faster, 0.9 * with("400MB/s", "1MiB", "1MiB").step());
  EXPECT_GT(faster, 1.01 * with("400MB/s", "4MiB", "4MiB").step());
  expect_step(report, "bandwidth of axis ranks x 2", faster);
  expect_step(report, "memory x 2", with("200MB/s", "8MiB", "2MiB").step());
}

TEST(WhatIf, NothingThatFitsIsAnError) {
  Setting setting = quick_setting();
  setting.options.memory_limit = 1000;
  EXPECT_THROW(report_of(setting), Error);
}

}  // namespace
}  // namespace hidup
