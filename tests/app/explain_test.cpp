#include "app/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "app/costs.h"
#include "app/plan_report.h"
#include "app/run_search.h"
#include "search/estimate/choose_routes.h"
#include "search/named/combination.h"
#include "sharding/hints.h"
#include "small_decks.h"

namespace hidup {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class Explained : public testing::Test {
 protected:
  explicit Explained(const std::vector<std::string>& overrides = {"train.microbatches=2"})
      : input_(SmallDecks().read(overrides)),
        profile_(costs_without_ranks(input_.deck, input_.mesh)),
        costs_(profile_) {}

  Forecast step_of(const std::string& strategy) const {
    return forecast(input_.graph,
                    choose_strategy(strategy, input_.deck, input_.graph, input_.mesh, profile_),
                    lowering_options(input_.deck), costs_);
  }

  PlanningInput input_;
  Profile profile_;
  CostModel costs_;
};

void add(PassTimes& sum, const PassTimes& times) {
  sum.compute_s += times.compute_s;
  sum.comm_s += times.comm_s;
  sum.exposed_s += times.exposed_s;
}

std::vector<std::string> names_of(const std::vector<BucketReport>& buckets) {
  std::vector<std::string> names;
  for (const BucketReport& bucket : buckets) {
    names.push_back(bucket.name);
  }
  return names;
}

// Its bytes are half.
TEST_F(Explained, RoundedSumsSayTheirType) {
  const Forecast wide = step_of("dp");
  input_ = SmallDecks().read({"train.microbatches=2", "train.gradients=bf16"});
  const Forecast narrow = step_of("dp");
  const auto gradients = [&](const Forecast& step) {
    for (const MessageReport& message : explain_step(input_.graph, step).messages) {
      if (message.name.starts_with("gradients")) {
        return message;
      }
    }
    return MessageReport();
  };
  EXPECT_EQ(gradients(wide).way.find("bf16"), std::string::npos);
  EXPECT_NE(gradients(narrow).way.find(", in bf16"), std::string::npos) << gradients(narrow).way;
  EXPECT_GT(gradients(narrow).bytes.at(0), 0.0);
  EXPECT_EQ(2.0 * gradients(narrow).bytes.at(0), gradients(wide).bytes.at(0));
}

// Every second of a step belongs to one operation or one bucket, for any strategy.
TEST_F(Explained, OperationsAndBucketsAreTheWholeStep) {
  for (const char* strategy : {"dp", "fsdp", "megatron", "megatron-sp", "ps"}) {
    const Forecast step = step_of(strategy);
    const Explanation found = explain_step(input_.graph, step);
    ASSERT_EQ(found.operations.size(), input_.graph.ops().size());
    PassTimes sum;
    for (OpId op = 0; op < static_cast<OpId>(found.operations.size()); ++op) {
      const OperationReport& operation = found.operations[static_cast<size_t>(op)];
      EXPECT_EQ(operation.op, op);
      add(sum, operation.forward);
      add(sum, operation.backward);
    }
    for (const BucketReport& bucket : found.buckets) {
      add(sum, bucket.times);
    }
    const BusyTimes& busy = step.prediction.busy;
    EXPECT_NEAR(sum.compute_s, busy.compute_s, 1e-9) << strategy;
    EXPECT_NEAR(sum.comm_s, busy.comm_s, 1e-9) << strategy;
    EXPECT_NEAR(sum.exposed_s, busy.exposed_comm_s, 1e-9) << strategy;
  }
}

TEST_F(Explained, BucketsAreWhatBelongsToNoOperation) {
  const auto buckets = [&](const std::string& strategy) {
    return names_of(explain_step(input_.graph, step_of(strategy)).buckets);
  };
  EXPECT_THAT(buckets("dp"), Contains("gradients all_reduce"));
  EXPECT_THAT(buckets("fsdp"), Contains("gradients reduce_scatter"));
  EXPECT_THAT(buckets("fsdp"), Contains("parameters all_gather"));
}

TEST_F(Explained, CommunicationIsThatOfTheOperationWhoseOutputIsSent) {
  const Explanation found = explain_step(input_.graph, step_of("megatron"));
  std::vector<std::string> forward;
  for (const OperationReport& operation : found.operations) {
    if (operation.forward.comm_s > 0.0) {
      forward.push_back(input_.graph.op_name(operation.op));
    }
  }
  EXPECT_THAT(forward, ElementsAre("embedding", "layers.0.attention.out", "layers.0.ffn.down",
                                   "layers.1.attention.out", "layers.1.ffn.down", "loss"));
}

TEST_F(Explained, StagesAreThoseOfBothPasses) {
  const Explanation found = explain_step(input_.graph, step_of("dp"));
  ASSERT_EQ(found.stages.size(), 2) << "nothing is sent inside of a pass";
  EXPECT_EQ(found.stages[0].phase, Phase::forward);
  EXPECT_EQ(found.stages[1].phase, Phase::backward);
  EXPECT_EQ(found.stages[0].first, 0);
  EXPECT_EQ(input_.graph.op_name(found.stages[1].first), "loss");
}

Candidate candidate(double compute_s, double comm_s, double exposed_s) {
  return {.busy = {compute_s, comm_s, exposed_s}};
}

TEST(WhySlower, NamesWhatIsLonger) {
  const Candidate best = candidate(1.0, 2.0, 0.5);
  EXPECT_EQ(why_slower(candidate(1.5, 2.0, 0.5), best), "500.00 ms more computation");
  EXPECT_EQ(why_slower(candidate(1.0, 3.0, 1.0), best),
            "500.00 ms more exposed communication (1.00 s more in all)");
  EXPECT_EQ(why_slower(candidate(1.0, 1.5, 1.0), best),
            "500.00 ms more exposed communication (500.00 ms less in all)");
  EXPECT_EQ(
      why_slower(candidate(1.3, 3.0, 1.0), best),
      "500.00 ms more exposed communication (1.00 s more in all), 300.00 ms more computation");
  EXPECT_EQ(why_slower(candidate(1.01, 3.0, 1.0), best),
            "500.00 ms more exposed communication (1.00 s more in all)")
      << "what is small beside that is left out";
  EXPECT_EQ(why_slower(candidate(0.9, 2.0, 0.5), best), "streams wait for each other longer");
}

TEST_F(Explained, TheBestOfEveryName) {
  SearchOutcome found;
  found.step.strategy.microbatches = 2;
  const auto add_candidate = [&](const std::string& name, double seconds, bool feasible) {
    found.candidates.push_back({.strategy = {.name = name}, .seconds = seconds});
    found.candidates.back().feasible = feasible;
  };
  add_candidate("search", 1e-6, true);  // faster than any step
  add_candidate("dp", 2e-6, true);
  add_candidate("dp", 3e-6, true);
  add_candidate("fsdp", 1e-7, false);
  const std::vector<Candidate> best = best_of_each_name(found, input_, costs_);
  ASSERT_EQ(best.size(), plain_names(input_.graph, input_.mesh).size() + 1);
  EXPECT_EQ(best[0].strategy.name, "search");
  EXPECT_EQ(best[1].strategy.name, "dp");
  EXPECT_EQ(best[1].seconds, 2e-6);
  EXPECT_EQ(best.back().strategy.name, "fsdp") << "who does not fit is last";
  const auto megatron = std::ranges::find_if(
      best, [](const Candidate& each) { return each.strategy.name == "megatron"; });
  ASSERT_NE(megatron, best.end());

  EXPECT_EQ(megatron->strategy.microbatches, 2);
  EXPECT_EQ(megatron->seconds, step_of("megatron").prediction.iteration_s);
  EXPECT_EQ(megatron->memory_bytes, step_of("megatron").plan.bytes);
}

// The explained strategy takes part in no comparison of the search's finds.
TEST_F(Explained, AStrategyBesideTheNamedOnes) {
  const Forecast step = step_of("fsdp");
  Strategy mine = choose_strategy("fsdp", input_.deck, input_.graph, input_.mesh, profile_);
  mine.name = "mine";
  const Candidate explained{.strategy = mine, .seconds = step.prediction.iteration_s};
  SearchOptions options = search_options(input_.deck, input_.graph, input_.mesh, "");
  options.memory_limit = step_of("dp").plan.bytes - 1;
  options.hints = read_hints(input_.graph, input_.mesh,
                             "operations: [{op: 'layers.*.ffn.up', rule: [batch]}]", "h.yaml");
  const std::vector<Candidate> all = beside_named(explained, input_, profile_, options);
  EXPECT_EQ(all.size(), plain_names(input_.graph, input_.mesh).size() + 1);
  const auto of = [&](std::string_view name) {
    return *std::ranges::find_if(all, [&](const Candidate& c) { return c.strategy.name == name; });
  };
  EXPECT_EQ(of("mine").seconds, step.prediction.iteration_s);
  EXPECT_EQ(of("fsdp").seconds, step.prediction.iteration_s);
  EXPECT_EQ(of("fsdp").strategy.microbatches, 2);
  EXPECT_TRUE(of("fsdp").feasible);
  EXPECT_FALSE(of("dp").feasible);
  EXPECT_EQ(of("dp").reason.find("needs "), 0U) << of("dp").reason;
  EXPECT_FALSE(of("megatron").feasible);
  EXPECT_EQ(of("megatron").reason.find("the hints ask for "), 0U) << of("megatron").reason;
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, [](const Candidate& candidate) {
    return std::pair(!candidate.feasible, candidate.seconds);
  }));
}

TEST(BestOfEachName, OnTwoAxesHasANamePerAxis) {
  const SmallDecks decks;
  const PlanningInput input =
      decks.read({"model.layers=1",
                  "cluster.mesh=[{name: node, size: 2, bandwidth: 1GB/s, latency: 5us}, "
                  "{name: gpu, size: 2, bandwidth: 10GB/s, latency: 5us}]"});
  const Profile profile = costs_without_ranks(input.deck, input.mesh);
  const RankCosts costs = rank_costs(input.deck, input.mesh, profile);
  SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  options.level = SearchLevel::fast;
  options.time_limit_s = 0.0;  // all are simulated, however slow the machine
  const SearchOutcome found = search_for(input.deck, input.graph, input.mesh, profile, options);
  const std::vector<Candidate> best = best_of_each_name(found, input, costs);
  const Json json = candidates_json(best);
  EXPECT_EQ(json.size(), best.size());
  EXPECT_EQ(json.size(), 1 + Baselines(input.graph, input.mesh).size());
  for (const char* name : {"hsdp", "node=dp,gpu=megatron", "node=megatron,gpu=dp"}) {
    ASSERT_TRUE(json.contains(name)) << name;
    const Strategy strategy = named_strategy(name, input.graph, input.mesh);
    const auto entry = std::ranges::find_if(
        best, [&](const Candidate& each) { return each.strategy.name == name; });
    EXPECT_EQ(entry->strategy.ops, strategy.ops) << name;
    Strategy timed = strategy;
    timed.microbatches = entry->strategy.microbatches;
    timed = with_routes(input.graph, timed, lowering_options(input.deck), CostModel(profile));
    const Forecast step = forecast(input.graph, timed, lowering_options(input.deck), costs);
    EXPECT_DOUBLE_EQ(json[name]["predicted_iteration_s"], step.prediction.iteration_s);
    EXPECT_EQ(json[name]["predicted_peak_bytes"], step.plan.bytes);
  }
}

}  // namespace
}  // namespace hidup
