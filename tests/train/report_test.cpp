// The lines that a run prints.
#include "train/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/results.h"

namespace hidup {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Returns the output of the work.
template <typename Work>
std::string printed(const Work& work) {
  testing::internal::CaptureStdout();
  work();
  results::flush();
  return testing::internal::GetCapturedStdout();
}

TEST(Report, TheFirstStepOfARunThatGoesOn) {
  Report report(1000, {.count = 64}, -1.0, {});
  EXPECT_THAT(printed([&] { report.step(501, {.loss = 2.0}, 0.01, {}); }),
              StartsWith("step  501/1000  loss 2.0000  "));
  EXPECT_EQ(printed([&] { report.step(502, {.loss = 2.0}, 0.01, {}); }), "");
}

TEST(Report, WhatIsBesideTheLoss) {
  Report report(2, {.count = 64}, -1.0, {});
  EXPECT_THAT(printed([&] {
                report.step(1, {.loss = 2.0}, 0.01, {}, {{"balance loss", 1.25}});
              }),
              StartsWith("step 1/2  loss 2.0000  balance loss 1.2500  "));
  report.step(2, {.loss = 1.0}, 0.01, {}, {{"balance loss", 1.5}});
  EXPECT_THAT(printed([&] { report.summary({}, std::nullopt, std::nullopt, "run.h5", ""); }),
              HasSubstr("        balance loss 1.3750 over the last 2 steps\n"));
}

// The longest computation and the longest communication belong to different ranks.
TEST(Report, TheOverlapRatioIsThatOfTheTimesAboveIt) {
  Report report(2, {.count = 64}, -1.0, {});
  const std::vector<BusyTimes> ranks = {{0.8, 0.1, 0.075}, {0.5, 0.4, 0.1}};
  EXPECT_THAT(printed([&] { report.step(1, {.loss = 2.0}, 1.0, ranks); }),
              HasSubstr("  75.00 ms exposed  "));
  report.step(2, {.loss = 2.0}, 1.0, ranks);
  EXPECT_THAT(printed([&] { report.summary({}, std::nullopt, std::nullopt, "run.h5", ""); }),
              HasSubstr("\ntime    compute 800.00 ms, communication 100.00 ms, of it exposed "
                        "75.00 ms (per step, busiest rank)\n"
                        "        overlap ratio 25.0 % (the hidden part of communication)\n"));
}

TEST(Report, HowFarAStepIsFromItsFloor) {
  Report report(2, {.count = 64}, -1.0, {});
  report.step(1, {.loss = 2.0}, 0.5, {});
  report.step(2, {.loss = 2.0}, 1.0, {});
  const auto summary = [&](const std::optional<StepFloor>& floor) {
    return printed([&] { report.summary({}, std::nullopt, floor, "run.h5", ""); });
  };
  EXPECT_THAT(summary(StepFloor{.seconds = 0.5, .product = 312e9, .memory = 41e9}),
              HasSubstr("\n        1.50 times the least time of its computation, 500.00 ms "
                        "(products at 312 Gflop/s, memory at "
                        "41 GB/s on a rank, as profiled)\nmemory  "));
  EXPECT_THAT(summary(StepFloor{.seconds = 0.5, .product = 712.5e12, .memory = 2.4e12}),
              HasSubstr("(products at 712.5 Tflop/s, memory at 2400 GB/s on a rank, as profiled)"));
  EXPECT_THAT(summary(std::nullopt), Not(HasSubstr("least time")));
}

TEST(Report, HowFarThePredictionWasOff) {
  Report report(1, {.count = 64}, -1.0, {});
  report.step(1, {.loss = 2.0}, 0.5, {});
  const auto summary = [&](double seconds) {
    return printed([&] {
      report.summary({}, Prediction{.iteration_s = seconds}, std::nullopt, "run.h5", "");
    });
  };
  EXPECT_THAT(summary(0.375), HasSubstr(" (25.0 % less than measured)\n"));
  EXPECT_THAT(summary(0.75), HasSubstr(" (50.0 % more than measured)\n"));
}

std::vector<int64_t> together(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A warning comes once, when over a tenth is dropped in 20 steps or a layer is too uneven, and a
// line per layer in the summary.
TEST(Report, LoadsOfExperts) {
  const auto end_of_run = [](int64_t dropped, int64_t steps,
                             const ExpertExpectation& expected = {}) {
    Report report(steps, {.count = 64}, -1.0, {}, std::nullopt, std::nullopt, expected);
    testing::internal::CaptureStderr();
    const std::string text = printed([&] {
      for (int64_t step = 1; step <= steps; ++step) {
        const std::vector<int64_t> tokens = {700, 200, 100, 0, 250, 250, 250, 250};
        const std::vector<int64_t> of_layer = {dropped > 0 && step <= 5 ? 500 : dropped, 0, 0, 0};
        report.experts().step(tokens, together(of_layer, of_layer), 2);
        report.step(step, {.loss = 2.0}, 0.01, {});
      }
      report.summary({}, std::nullopt, std::nullopt, "run.h5", "");
    });
    return std::pair(text, testing::internal::GetCapturedStderr());
  };
  const auto [text, warnings] = end_of_run(588, 60);
  EXPECT_THAT(text, HasSubstr("\nexperts of MoE layer 0: the largest load is 2.80 times the mean, "
                              "median 0.80, 95 % 2.80; idle 1.0; dropped 58.8 %\n"
                              "experts of MoE layer 1: the largest load is 1.00 times the mean, "
                              "median 1.00, 95 % 1.00; idle 0.0; dropped 58.8 %\n"));
  EXPECT_EQ(warnings,
            "hidup: warning: the experts drop 56.6 % of their tokens, which find no slot: a "
            "larger model.moe.capacity_factor or model.moe.balance_loss keeps more of them, and "
            "model.moe.capacity_factor none keeps all\n");
  EXPECT_EQ(end_of_run(588, 19).second, "") << "it may pass";
  EXPECT_EQ(end_of_run(0, 19).second, "");
  const auto [uneven, warned] = end_of_run(0, 60, {.warn_imbalance = 2.5, .largest = {1.5, 1.25}});
  EXPECT_THAT(uneven, HasSubstr("2.80 times the mean (expected 1.50)"));
  EXPECT_THAT(uneven, HasSubstr("1.00 times the mean (expected 1.25)"));
  EXPECT_EQ(warned,
            "hidup: warning: experts of MoE layer 0: the largest load is 2.80 times the mean "
            "(expected 1.50), median 0.80, 95 % 2.80; idle 1.0; dropped 0.0 % "
            "(model.moe.warn_imbalance 2.5)\n");
  EXPECT_EQ(end_of_run(0, 60, {.warn_imbalance = 2.9}).second, "");
  Report dense(1, {.count = 64}, -1.0, {});
  EXPECT_THAT(printed([&] { dense.summary({}, std::nullopt, std::nullopt, "run.h5", ""); }),
              Not(HasSubstr("experts")));
}

// The cores in use are all 4, or 0.4 of one; the first step prepares much and does not count.
TEST(Report, HowAnEmulatedRunKeepsUp) {
  const auto end_of_run = [](double cpu_s, int64_t late) {
    Report report(
        3, {.count = 64}, -1.0, {},
        EmulationScale{.dilation = 4.0, .cores = 4.0, .instructions = 100, .predicted_s = 0.5});
    report.emulated({.wall_s = 9.0, .cpu_s = 9.0, .late = 100});
    report.step(1, {.loss = 2.0}, 0.5, {});
    for (const int64_t step : {2, 3}) {
      report.emulated({.wall_s = 2.0, .cpu_s = cpu_s, .late = late});
      report.step(step, {.loss = 2.0}, 0.5, {});
    }
    testing::internal::CaptureStderr();
    const std::string text =
        printed([&] { report.summary({}, std::nullopt, std::nullopt, "run.h5", ""); });
    return text + testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(end_of_run(4.0, 1),
              HasSubstr("        emulated (predicted 500.00 ms, here 500.00 ms x 4, 1 % late)\n"));
  EXPECT_THAT(end_of_run(4.0, 1), HasSubstr("3 in 2 s of emulated time (500.00 ms per step"));
  EXPECT_THAT(end_of_run(4.0, 1), Not(HasSubstr("warning")));
  EXPECT_THAT(end_of_run(8.0, 2), HasSubstr("2 % of the instructions were done after their "
                                            "emulated end: with cluster.emulate_dilation 10 "));
  EXPECT_THAT(end_of_run(0.8, 2), HasSubstr("try cluster.emulate_dilation 8"));
}

TEST(Report, Validation) {
  Report report(1000, {.count = 64}, -1.0, {});
  const auto summary = [&] { report.summary({}, std::nullopt, std::nullopt, "run.h5", ""); };
  EXPECT_THAT(printed(summary), Not(HasSubstr("validation")));
  EXPECT_EQ(printed([&] { report.validation(500, {.loss = 1.75}); }),
            "valid  500/1000  loss 1.7500\n");
  EXPECT_EQ(printed([&] { report.validation(1000, {.loss = 1.6012}); }),
            "valid 1000/1000  loss 1.6012\n");
  EXPECT_THAT(printed(summary),
              HasSubstr("        validation 1.6012 after step 1000, perplexity 4.959\n"));
}

TEST(Report, OfImages) {
  Report report(1000, {.count = 64, .images = true}, -1.0, {});
  const auto summary = [&] { report.summary({}, std::nullopt, std::nullopt, "run.h5", ""); };
  EXPECT_THAT(printed([&] { report.step(1, {.loss = 2.0, .accuracy = 0.125}, 0.01, {}); }),
              StartsWith("step    1/1000  loss 2.0000  accuracy 12.5 %    6,400 images/s  "));
  report.step(2, {.loss = 2.0, .accuracy = 0.375}, 0.01, {});
  EXPECT_THAT(printed(summary),
              HasSubstr("\n        accuracy 12.5 % at first, 25.0 % over the last 2 steps\n"));
  EXPECT_EQ(printed([&] { report.validation(3, {.loss = 1.75, .accuracy = 0.5}); }),
            "valid    3/1000  loss 1.7500  accuracy 50.0 %\n");
  EXPECT_THAT(printed(summary), HasSubstr("over the last 2 steps; validation 50.0 %\n"));
}

}  // namespace
}  // namespace hidup
