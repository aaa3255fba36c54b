// The search from a graph to a strategy: its problem against the programs that lower() writes.
#include "search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/check.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "program/verify.h"
#include "program/work.h"
#include "search/estimate/estimate.h"
#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

Graph small_model(int64_t layers) {
  return build_model(small_deck(layers, 4), 1000);
}

const Mesh kFourRanks = {{"ranks", 4}};

// Adds up the times of a pass's instructions on the compute stream, without overlap.
double computed_s(const Program& program, const CostModel& model, Phase phase) {
  double seconds = 0.0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == phase && instruction.stream == StreamKind::compute) {
      seconds += model.operation(instruction.opcode, work_of(program, instruction, 0));
    }
  }
  return seconds;
}

class NamedStrategies : public testing::TestWithParam<const char*> {};

// The search charges each operation what the program computes for it, to a few percent (sums of
// gradients are missing). The step's time and memory are near the simulated and planned ones.
TEST_P(NamedStrategies, CostWhatTheirProgramsDo) {
  const Graph graph = small_model(2);
  const CostModel model_costs = simple_costs();
  for (const int microbatches : {1, 2}) {
    const BuiltProblem built =
        build_problem(graph, kFourRanks, model_costs,
                      {.microbatches = microbatches, .bucket_bytes = kSmallBucket});
    Strategy strategy = named_strategy(GetParam(), graph, kFourRanks);
    strategy.microbatches = microbatches;
    LoweringOptions lowering = simple_lowering();
    lowering.fuse = false;
    const Program program = lower(graph, strategy, lowering);

    const auto found = choices_of(graph, built.problem, built, strategy);
    ASSERT_TRUE(found.has_value());
    const std::vector<int>& choices = *found;
    double forward = 0.0;
    double backward = 0.0;
    for (size_t op = 0; op < choices.size(); ++op) {
      const Choice& choice = built.problem.choices_of(op).choices[static_cast<size_t>(choices[op])];
      forward += microbatches * choice.forward_compute_s;
      backward += microbatches * choice.backward_compute_s;
    }
    EXPECT_NEAR(forward, computed_s(program, model_costs, Phase::forward), 0.05 * forward);
    EXPECT_NEAR(backward, computed_s(program, model_costs, Phase::backward), 0.1 * backward);

    const Plan plan{choices, needed_starts(built.problem, choices)};
    const Evaluation cost = evaluate(built.problem, plan);
    const double simulated = simulate(program, model_costs).iteration_s;
    EXPECT_NEAR(cost.seconds, simulated, 0.08 * simulated);
    const MemoryPlan memory = plan_memory(program, 0);
    EXPECT_NEAR(cost.bytes, static_cast<double>(memory.bytes),
                0.3 * static_cast<double>(memory.bytes));

    const Strategy again = to_strategy(graph, kFourRanks, built, plan);
    Strategy renamed = strategy;
    renamed.name = "search";
    renamed.defer_gradients = false;
    EXPECT_EQ(print_strategy(graph, again), print_strategy(graph, renamed));
  }
}

INSTANTIATE_TEST_SUITE_P(All, NamedStrategies,
                         testing::Values("dp", "zero1", "fsdp-kept", "ep-deepspeed", "megatron",
                                         "megatron-sp", "min-comm"));

TEST(Search, NeverLosesToNamedStrategiesAndItsProgramsAreRight) {
  for (const double bandwidth : {1e8, 1e9, 1e11}) {
    const Graph graph = small_model(2);
    const CostModel model_costs = simple_costs(bandwidth);
    const SearchOutcome outcome =
        searched(graph, kFourRanks, model_costs, {.lowering = simple_lowering()});
    EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
    EXPECT_GE(outcome.gap, 0.0);
    for (const NamedStrategy& named : named_strategies()) {
      if (named.of_stages) {  // no search looks for pipelines
        continue;
      }
      for (const int microbatches : {1, 2, 4}) {
        Strategy strategy = named_strategy(named.name, graph, kFourRanks);
        strategy.microbatches = microbatches;
        const Program program = lower(graph, strategy, simple_lowering());
        EXPECT_LE(outcome.step.seconds(), simulate(program, model_costs).iteration_s * (1 + 1e-9))
            << named.name;
      }
    }
    for (const Candidate& candidate : outcome.candidates) {
      const Program program = lower(graph, candidate.strategy, simple_lowering());
      for (int64_t rank = 0; rank < ranks_of(kFourRanks); ++rank) {
        EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
      }
    }
  }
}

// A proof finds better plans by the objective, which might be slower by the simulation.
TEST(Search, IsNotSlowerWithAProof) {
  for (const double bandwidth : {1e8, 3e8, 1e9, 3e9, 1e10}) {
    for (const int microbatches : {1, 2, 4}) {
      Setting setting = quick_setting();
      setting.deck.model->hidden = 32;
      setting.deck.model->ffn = 64;
      setting.deck.model->heads = 2;
      setting.deck.model->sequence = 8;
      setting.deck.train->batch = 8;
      setting.vocab = 50;
      setting.machine = {.flops = 1e11,
                         .memory_bandwidth = 1e10,
                         .links = {{.bandwidth = bandwidth, .latency_s = 5e-6}}};
      setting.options.lowering = {};
      setting.options.baselines = false;
      setting.options.microbatches = {microbatches};
      const double without = setting.search().step.seconds();
      setting.options.level = SearchLevel::standard;
      EXPECT_LE(setting.search().step.seconds(), without * (1 + 1e-9))
          << bandwidth << " " << microbatches;
    }
  }
}

// Neither the number of threads nor the omission of unrequested results changes the plan.
TEST(Search, FindsTheSameWithLessEffort) {
  for (const double bandwidth : {1e8, 1e10}) {
    const Graph graph = small_model(2);
    const CostModel model_costs = simple_costs(bandwidth);
    SearchOptions options{.lowering = simple_lowering(), .threads = 1};
    const SearchOutcome all = searched(graph, kFourRanks, model_costs, options);
    options.threads = 3;
    const SearchOutcome threads = searched(graph, kFourRanks, model_costs, options);
    EXPECT_EQ(print_strategy(graph, all.step.strategy),
              print_strategy(graph, threads.step.strategy));
    EXPECT_EQ(all.candidates.size(), threads.candidates.size());
    options.baselines = false;
    const SearchOutcome few = searched(graph, kFourRanks, model_costs, options);
    EXPECT_EQ(print_strategy(graph, all.step.strategy), print_strategy(graph, few.step.strategy));
    EXPECT_LT(few.candidates.size(), all.candidates.size());
    EXPECT_EQ(few.candidates[0].memory_bytes, all.candidates[0].memory_bytes);
    EXPECT_DOUBLE_EQ(few.gap, all.gap);
  }
}

// The search of a deep graph looks at reduced graphs; its statements about the plan are of the
// whole graph.
TEST(Search, OfDeepGraphsPredictsTheirPrograms) {
  const Graph graph = small_model(40);
  for (const double bandwidth : {1e8, 1e10}) {
    const CostModel model_costs = simple_costs(bandwidth);
    SearchOptions options{
        .level = SearchLevel::fast, .microbatches = {2}, .lowering = simple_lowering()};
    for (int tighter = 0; tighter < 2; ++tighter) {
      const SearchOutcome outcome = searched(graph, kFourRanks, model_costs, options);
      EXPECT_EQ(outcome.step.strategy.ops.size(), graph.ops().size());
      const Program program = lower(graph, outcome.step.strategy, simple_lowering());
      EXPECT_EQ(simulate(program, model_costs).iteration_s, outcome.step.seconds()) << bandwidth;
      const MemoryPlan plan = largest_plan(program);
      EXPECT_EQ(plan.bytes, outcome.step.plan.bytes) << bandwidth;
      EXPECT_TRUE(options.memory_limit == 0 || plan.bytes <= options.memory_limit) << bandwidth;
      EXPECT_NO_THROW(verify(program, plan));
      options.memory_limit = plan.bytes - plan.bytes / 5;
    }
  }
}

// The bound covers the numbers of microbatches that were tried.
TEST(Search, TriesTwiceTheMostMicrobatchesWhereTheseAreTheFastest) {
  Setting setting = quick_setting();
  setting.machine.links[0] = {.bandwidth = 1e9, .latency_s = 1e-6};
  setting.options.microbatches = {1, 2};
  const SearchOutcome more = setting.search();
  EXPECT_EQ(more.step.strategy.microbatches, 4);
  EXPECT_STREQ(more.candidates[0].by, "more microbatches");
  EXPECT_EQ(more.lower_bound_s, 0.0);
  const auto tried = std::ranges::find_if(more.candidates, [](const Candidate& candidate) {
    return candidate.strategy.microbatches <= 2;
  });
  EXPECT_LT(more.step.seconds(), 0.99 * tried->seconds);
  setting.options.microbatches = {2};  // explicitly requested
  EXPECT_EQ(setting.search().step.strategy.microbatches, 2);
}

// One rank does not communicate, and has one plan.
TEST(Search, OfOneRankComputesAsOneRankDoes) {
  const Graph graph = small_model(1);
  const SearchOutcome outcome =
      searched(graph, {{"ranks", 1}}, simple_costs(), {.lowering = simple_lowering()});
  EXPECT_EQ(outcome.step.strategy.microbatches, 1);
  for (const OpStrategy& op : outcome.step.strategy.ops) {
    EXPECT_EQ(op.rules.size(), 1U);
  }
}

TEST(Search, KeepsTheLimitOfMemory) {
  const Graph graph = small_model(2);
  const CostModel model_costs = simple_costs();
  const SearchOutcome free =
      searched(graph, kFourRanks, model_costs, {.lowering = simple_lowering()});
  int64_t least = free.candidates[0].memory_bytes;
  for (const Candidate& candidate : free.candidates) {
    least = std::min(least, candidate.memory_bytes);
  }
  const int64_t limit = least + least / 20;
  const SearchOutcome tight = searched(graph, kFourRanks, model_costs,
                                       {.memory_limit = limit, .lowering = simple_lowering()});
  for (const Candidate& candidate : tight.candidates) {
    EXPECT_EQ(candidate.feasible, candidate.memory_bytes <= limit);
  }
  EXPECT_TRUE(tight.candidates[0].feasible);
  const SearchResult nothing = search_strategy(
      graph, kFourRanks, model_costs, {.memory_limit = 1000, .lowering = simple_lowering()});
  ASSERT_TRUE(std::holds_alternative<Infeasible>(nothing));
  EXPECT_GT(std::get<Infeasible>(nothing).least.bytes, 1000);
}

// Work is counted, not time: a search past its deadline does the work of its first plan only, a
// small part of a whole search, and later deadlines allow as much after them.
TEST(Search, EndsSoonAfterItsDeadlineWithAPlan) {
  for (const bool two_axes : {false, true}) {
    for (const int64_t memory : {int64_t{0}, int64_t{4} << 20}) {  // the latter is short
      if (two_axes && memory > 0) {  // would take twice as long as all others
        continue;
      }
      Setting setting = small_setting(4);
      if (two_axes) {
        setting.mesh = {{"node", 2}, {"core", 2}};
        setting.machine.links = {{.bandwidth = 1e9, .latency_s = 2e-5},
                                 {.bandwidth = 2e10, .latency_s = 5e-6}};
      }
      setting.options.level = SearchLevel::fast;
      setting.options.memory_limit = memory;
      setting.options.threads = 1;
      setting.options.microbatches = {1, 2};
      const auto work_within = [&](const Deadline& deadline) {
        setting.options.deadline = deadline;
        const int64_t before = TimeLimit::checks();
        const SearchOutcome outcome = setting.search();
        EXPECT_GT(outcome.step.seconds(), 0.0);
        EXPECT_TRUE(memory == 0 || outcome.candidates[0].memory_bytes <= memory);
        EXPECT_EQ(outcome.timed_out, deadline.has_passed());
        return TimeLimit::checks() - before;
      };
      const auto work_after = [&](int64_t questions) {
        std::atomic<int64_t> left = questions;
        return work_within(Deadline::after_questions(left));
      };
      const int64_t first = work_after(0);
      EXPECT_LE(5 * first, work_within({})) << memory << ", " << two_axes;
      for (const int64_t questions : {30, 2000}) {
        EXPECT_LE(work_after(questions), questions + 3 * first) << memory << ", " << two_axes;
      }
    }
  }
}

// The outcome's objective then belongs to the returned strategy, not to a plan without a forecast.
TEST(Search, AForecastThatIsTooLateGivesWayToANamedStrategy) {
  Setting setting = quick_setting();
  const SearchOutcome whole = setting.search();
  ASSERT_EQ(whole.step.strategy.name, "search");
  std::atomic<int64_t> left = 0;
  setting.options.too_late = Deadline::after_questions(left);
  const SearchOutcome outcome = setting.search();
  EXPECT_EQ(outcome.step.strategy.name, "dp");
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_GT(outcome.step.seconds(), whole.step.seconds());
  EXPECT_GE(outcome.objective_s, outcome.step.seconds());
  const bool named = std::ranges::any_of(outcome.candidates, [](const Candidate& candidate) {
    return candidate.strategy.name == "search" && candidate.reason == kNotInTime;
  });
  EXPECT_TRUE(named) << "the plan is among the candidates that were not in time";
}

// On the slowest and the fastest machines steps take nanoseconds to years, and the search ends.
TEST(Search, MachinesOfAnySpeed) {
  Setting setting = small_setting(4);
  for (const double flops : {1e6, 1e18}) {
    for (const double bandwidth : {1e3, 1e15}) {
      for (const double latency_s : {0.0, 3600.0}) {
        setting.machine = {.flops = flops,
                           .memory_bandwidth = bandwidth,
                           .links = {{.bandwidth = bandwidth, .latency_s = latency_s}}};
        const SearchOutcome outcome = setting.search();
        EXPECT_TRUE(std::isfinite(outcome.step.seconds()));
        EXPECT_GT(outcome.step.seconds(), 0.0);
        EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
      }
    }
  }
}

TEST(Search, EqualLayersShareTheirChoices) {
  const CostModel model_costs = simple_costs();
  const BuiltProblem few = build_problem(small_model(4), kFourRanks, model_costs, {});
  const BuiltProblem many = build_problem(small_model(40), kFourRanks, model_costs, {});
  EXPECT_EQ(few.problem.kinds.size(), many.problem.kinds.size());
  EXPECT_LE(solve(many.problem, {}).expanded, 20 * solve(few.problem, {}).expanded / 4);
}

}  // namespace
}  // namespace hidup
