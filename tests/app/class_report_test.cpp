// The report of what each class of devices does in a step (app/class_report.h).
#include "app/class_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/costs.h"
#include "app/planning.h"
#include "small_decks.h"

namespace hidup {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Reported {
  Forecast step;
  std::vector<ClassReport> classes;
};

Reported reported(const std::string& strategy, const std::string& devices) {
  const PlanningInput input = SmallDecks().read(
      {"train.batch=12", "cluster.mesh=[{name: gpus, size: 3, bandwidth: 10GB/s}]",
       "cluster.devices=" + devices});
  const Profile profile = costs_without_ranks(input.deck, input.mesh);
  const RankCosts costs = rank_costs(input.deck, input.mesh, profile);
  const LoweringOptions lowering = lowering_options(input.deck);
  Forecast step =
      forecast(input.graph, choose_strategy(strategy, input.deck, input.graph, input.mesh, profile),
               lowering, costs);
  std::vector<ClassReport> classes = report_classes(input.deck, step, costs);
  return {std::move(step), std::move(classes)};
}

constexpr const char* kFastAndSlow =
    "[{count: 1, flops: 8GFLOPS, memory_bandwidth: 4GB/s, memory: 2GiB}, "
    "{count: 2, flops: 2GFLOPS, memory_bandwidth: 1GB/s}]";

TEST(ClassReport, FastRankWaitsWithEqualParts) {
  const auto [step, classes] = reported("dp", kFastAndSlow);
  ASSERT_EQ(classes.size(), 2);
  EXPECT_EQ(classes[0].ranks, (std::vector<int>{0}));
  EXPECT_EQ(classes[1].ranks, (std::vector<int>{1, 2}));
  EXPECT_NEAR(classes[0].work_part, 1.0 / 3.0, 0.01);
  EXPECT_NEAR(classes[1].work_part, 2.0 / 3.0, 0.01);
  EXPECT_EQ(classes[0].flops, 8e9);
  EXPECT_NEAR(classes[0].compute_s, classes[1].compute_s / 4.0, 0.01 * classes[0].compute_s);
  EXPECT_NEAR(classes[1].compute_s, step.prediction.busy.compute_s, 1e-9) << "the busiest rank's";
  for (const ClassReport& report : classes) {
    EXPECT_NEAR(report.compute_s + report.wait_s, step.seconds(), 1e-12);
    EXPECT_EQ(report.bytes, step.plan.bytes);
  }
  EXPECT_EQ(classes[0].limit_bytes, int64_t{2} << 30);
}

TEST(ClassReport, PartsInProportionKeepAllBusy) {
  const auto [step, classes] = reported("dp-cp", kFastAndSlow);
  ASSERT_EQ(classes.size(), 2);
  EXPECT_GT(classes[0].work_part, 0.6) << "two thirds, but for the update, which all repeat";
  EXPECT_LT(classes[1].compute_s, 2.0 * classes[0].compute_s);
  EXPECT_LT(classes[0].wait_s, reported("dp", kFastAndSlow).classes[0].wait_s);
}

TEST(ClassReport, HasALinePerItem) {
  const std::string text = describe(reported("dp", kFastAndSlow).classes);
  EXPECT_THAT(text, HasSubstr("\n  rank 0, 0.008 TFLOPS       33.3 %  computes "));
  EXPECT_THAT(text, HasSubstr("\n  ranks 1, 2, 0.002 TFLOPS   66.7 %  computes "));
  EXPECT_THAT(text, HasSubstr(" of 2.00 GiB\n"));
}

TEST(ClassReport, IsEmptyForEqualDevices) {
  EXPECT_THAT(reported("dp", "[]").classes, IsEmpty());
  EXPECT_EQ(describe(std::vector<ClassReport>()), "");
}

}  // namespace
}  // namespace hidup
