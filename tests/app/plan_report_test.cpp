#include "app/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/flops.h"
#include "small_decks.h"

namespace hidup {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Strategy predicted_strategy(const PlanningInput& input) {
  Strategy strategy = choose_strategy("fsdp", input.deck, input.graph, input.mesh);
  strategy.microbatches = 2;
  strategy.predicted = {.iteration_s = 0.5,
                        .compute_s = 0.25,
                        .comm_s = 0.125,
                        .exposed_comm_s = 0.0625,
                        .peak_bytes = int64_t{3} << 20};
  return strategy;
}

TEST(PlanJson, HasWhatProgramsReadOfAPlan) {
  const PlanningInput input = SmallDecks().read();
  const Strategy strategy = predicted_strategy(input);
  const Json expected = {
      {"model", "bert"},
      {"strategy", "fsdp"},
      {"strategy_hash", fmt::format("{:016x}", strategy_hash(input.graph, strategy))},
      {"data", "synthetic tokens below 50"},
      {"predicted_iteration_s", 0.5},
      {"predicted_compute_s", 0.25},
      {"predicted_comm_s", 0.125},
      {"predicted_exposed_comm_s", 0.0625},
      {"predicted_model_flops_utilization", model_flops(input.graph) / (4 * 1e11 * 0.5)},
      {"predicted_peak_bytes", 3 << 20},
      {"layers", 2},
      {"ranks", 4},
      {"useful_ranks", 1},
      {"microbatches", 2}};
  EXPECT_EQ(plan_json(input, strategy, {.useful_ranks = 1}).dump(2), expected.dump(2));
}

// Returns a fast candidate, slower ones and one that does not fit, as a search finds them.
std::vector<Candidate> sample_candidates() {
  std::vector<Candidate> candidates;
  const auto add = [&](const char* name, double seconds, const BusyTimes& busy) {
    candidates.push_back({.strategy = {.name = name, .microbatches = 2},
                          .seconds = seconds,
                          .busy = busy,
                          .memory_bytes = 1000});
  };
  add("search", 1.0, {0.75, 0.5, 0.25});
  add("dp", 1.125, {0.875, 0.5, 0.25});
  add("ps", 3.5, {0.75, 3.0, 2.75});
  add("fsdp", 0.5, {});
  candidates.back().feasible = false;
  candidates.back().reason = "needs 2 GiB of 1 GiB per rank";
  return candidates;
}

TEST(CandidatesJson, HasTheReasonOfEveryLoser) {
  const Json json = candidates_json(sample_candidates());
  EXPECT_EQ(json.size(), 4);
  EXPECT_EQ(json["search"]["reason"], "");
  EXPECT_EQ(json["search"]["feasible"], true);
  EXPECT_EQ(json["dp"]["reason"], "125.00 ms more computation");
  EXPECT_EQ(json["dp"]["predicted_iteration_s"], 1.125);
  EXPECT_EQ(json["dp"]["predicted_compute_s"], 0.875);
  EXPECT_EQ(json["dp"]["predicted_comm_s"], 0.5);
  EXPECT_EQ(json["dp"]["predicted_exposed_comm_s"], 0.25);
  EXPECT_EQ(json["dp"]["predicted_peak_bytes"], 1000);
  EXPECT_EQ(json["dp"]["microbatches"], 2);
  EXPECT_EQ(json["fsdp"]["feasible"], false);
  EXPECT_EQ(json["fsdp"]["reason"], "needs 2 GiB of 1 GiB per rank");
}

TEST(PrintCandidates, ComparesWithTheFirst) {
  testing::internal::CaptureStdout();
  print_candidates(sample_candidates());
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "  search, 2 microbatch(es)          1.00 s\n"
            "  dp, 2 microbatch(es)              1.12 s  +12.5 %: 125.00 ms more computation\n"
            "  ps, 2 microbatch(es)              3.50 s  3.5 times: 2.50 s more exposed "
            "communication (2.50 s more in all)\n"
            "  fsdp, 2 microbatch(es)         needs 2 GiB of 1 GiB per rank\n");
}

TEST(PrintCandidates, SaysOnceWhatRulesOutMany) {
  std::vector<Candidate> candidates = sample_candidates();
  for (const char* name : {"megatron", "megatron-sp", "node=dp,gpu=megatron"}) {
    candidates.push_back(candidates.back());
    candidates.back().strategy.name = name;
  }
  testing::internal::CaptureStdout();
  print_candidates(candidates);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("  4 strategies, such as fsdp and megatron needs 2 GiB"));
  EXPECT_EQ(text.find("megatron-sp"), std::string::npos);
}

TEST(PrintPlan, SaysWhatTheTimesRestOn) {
  const PlanningInput input = SmallDecks().read();
  Profile costs;
  costs.key.device = "a machine";
  Strategy strategy = predicted_strategy(input);
  const auto printed = [&](const std::string& repeated) {
    testing::internal::CaptureStdout();
    print_plan(input, strategy, costs, repeated);
    return testing::internal::GetCapturedStdout();
  };
  const std::string text = printed("");
  for (const char* line :
       {"on 4 rank(s)\n", "strategy  fsdp, 2 microbatch(es)\n", "costs     a machine\n",
        "predicted 500.00 ms per step: ", " % of the rated 0.1 TFLOPS of a rank\n",
        "memory    3.00 MiB per rank\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("repeated")));
  EXPECT_THAT(printed("much of it"), HasSubstr("repeated  much of it\n"));
  strategy.accumulate = 3;
  EXPECT_THAT(printed(""),
              HasSubstr("strategy  fsdp, 2 microbatch(es), accumulated over 3 groups\n"));
}

// Returns changes that are faster, slower, the same, surely the same, and impossible.
WhatIfReport sample_report() {
  WhatIfReport report{.now_s = 1.0, .changes = {}};
  const auto add = [&](const char* kind, const char* what, double seconds, double at_most) {
    report.changes.push_back({.kind = kind,
                              .of = "gpu",
                              .what = what,
                              .feasible = seconds > 0.0,
                              .reason = seconds > 0.0 ? "" : "no strategy fits in the memory",
                              .seconds = seconds,
                              .gain = seconds > 0.0 ? 1.0 - seconds : 0.0,
                              .at_most = at_most});
  };
  add("bandwidth", "bandwidth of axis gpu x 2", 0.875, 0.5);
  add("ranks", "ranks along axis gpu x 2", 1.25, 1.0);
  add("memory", "memory x 2", 0.999, 0.25);
  add("hint", "without layers.*.attention by head", 1.0, 0.0);
  add("hint", "without 2 microbatch(es)", 0.0, 1.0);
  return report;
}

TEST(PrintWhatIf, SaysWhatEachChangeGains) {
  testing::internal::CaptureStdout();
  print_what_if(sample_report());
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "  as it is                              1.00 s\n"
            "  bandwidth of axis gpu x 2          875.00 ms  12 % faster\n"
            "  ranks along axis gpu x 2              1.25 s  25 % slower\n"
            "  memory x 2                         999.00 ms  the same\n"
            "  without layers.*.attention by head    1.00 s  the same, whatever the strategy\n"
            "  without 2 microbatch(es)           no strategy fits in the memory\n");
}

TEST(ProposersJson, CountsWhatEachProposedAndSaysWhoWon) {
  const std::vector<Candidate> candidates = {
      {.by = "names"}, {.by = "joint problem"}, {.by = "names"}};
  const Json expected = {{"names", {{"proposed", 2}, {"won", true}}},
                         {"joint problem", {{"proposed", 1}, {"won", false}}}};
  EXPECT_EQ(proposers_json(candidates).dump(2), expected.dump(2));
}

TEST(WhatIfJson, IsAnObjectPerChange) {
  const Json json = what_if_json(sample_report());
  ASSERT_EQ(json.size(), 5U);
  const Json first = {{"what", "bandwidth of axis gpu x 2"},
                      {"kind", "bandwidth"},
                      {"of", "gpu"},
                      {"feasible", true},
                      {"reason", ""},
                      {"predicted_iteration_s", 0.875},
                      {"gain", 0.125},
                      {"gain_at_most", 0.5}};
  EXPECT_EQ(json[0].dump(2), first.dump(2));
  EXPECT_EQ(json[4]["feasible"], false);
}

}  // namespace
}  // namespace hidup
