// The search keeps hints.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

Setting hinted(Setting setting, const std::string& text) {
  setting.options.hints = read_hints(setting.graph(), setting.mesh, text, "h.yaml");
  return setting;
}

const std::string& chosen_rule(const Graph& graph, const Strategy& strategy, const std::string& op,
                               size_t axis = 0) {
  const Tensor& output = graph.tensor(graph.find(op));
  return strategy.ops.at(static_cast<size_t>(output.producer)).rules.at(axis).name;
}

TEST(HintsInSearch, RulesAreKept) {
  const Setting setting =
      hinted(small_setting(), "operations: [{op: 'layers.*.ffn.up', rule: [column]}]");
  const Graph graph = setting.graph();
  EXPECT_NE(chosen_rule(graph, small_setting().search().step.strategy, "layers.1.ffn.up"),
            "column");
  const SearchOutcome outcome = setting.search();
  EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
  for (const Candidate& candidate : outcome.candidates) {
    const bool kept = chosen_rule(graph, candidate.strategy, "layers.0.ffn.up") == "column" &&
                      chosen_rule(graph, candidate.strategy, "layers.1.ffn.up") == "column";
    EXPECT_EQ(candidate.feasible, kept) << candidate.strategy.name;
  }
  // A named strategy that breaks hints names them; one that keeps them is a candidate.
  const auto of_name = [&](const std::string& name) {
    return *std::ranges::find_if(outcome.candidates, [&](const Candidate& candidate) {
      return candidate.strategy.name == name;
    });
  };
  EXPECT_EQ(of_name("dp").reason, "the hints ask for layers.0.ffn.up by column, not batch");
  EXPECT_TRUE(of_name("megatron").feasible);
  EXPECT_TRUE(of_name("search").feasible);
}

// A deadline may pass while the search checks a named strategy of a deep graph. All strategies that
// break these hints are faster.
TEST(HintsInSearch, AreKeptWhereverADeadlineEndsTheSearch) {
  Setting deep = quick_setting();
  deep.deck.model->layers = 64;
  deep.options.threads = 1;
  deep.options.microbatches = {1};
  deep = hinted(std::move(deep), "operations: [{op: 'layers.*.ffn.up', rule: [replicate]}]");
  const Graph graph = deep.graph();
  const auto checks_of = [&](const Deadline& deadline) {
    deep.options.deadline = deadline;
    const int64_t before = TimeLimit::checks();
    const SearchOutcome outcome = deep.search();
    EXPECT_EQ(broken_hint(graph, deep.options.hints, outcome.step.strategy), "");
    if (outcome.timed_out) {  // the gap belongs to the returned strategy
      EXPECT_GE(outcome.objective_s, outcome.candidates[0].objective_s);
    }
    return TimeLimit::checks() - before;
  };
  const int64_t all = checks_of({});
  constexpr int64_t kEnds = 10;
  for (int64_t end = 0; end < kEnds; ++end) {
    std::atomic<int64_t> left = all * end / kEnds;
    checks_of(Deadline::after_questions(left));
  }
}

TEST(HintsInSearch, AWholeStrategyLeavesNoChoice) {
  for (const char* name : {"megatron", "fsdp", "fsdp-kept", "ps", "ep-fastmoe"}) {
    Setting setting = small_setting(4);
    const Graph graph = setting.graph();
    const Strategy strategy = named_strategy(name, graph, setting.mesh);
    setting = hinted(setting, print_strategy(graph, strategy));
    Strategy found = setting.search().step.strategy;
    found.name = name;
    found.stages.clear();  // notes
    found.predicted.reset();
    EXPECT_EQ(print_strategy(graph, found), print_strategy(graph, strategy)) << name;
  }
}

TEST(HintsInSearch, MicrobatchesAreKept) {
  const SearchOutcome outcome = hinted(small_setting(), "microbatches: 8").search();
  EXPECT_TRUE(std::ranges::all_of(outcome.candidates, [](const Candidate& candidate) {
    return candidate.strategy.microbatches == 8;
  }));
  Setting setting = hinted(small_setting(), "microbatches: 8");
  setting.deck.train->batch = 4;
  try {
    setting.search();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "the hints ask for 8 microbatches, and the batch has only 4 sequence(s)");
  }
}

TEST(HintsInSearch, GroupsAreKept) {
  const SearchOutcome outcome = hinted(small_setting(), "accumulate: 4").search();
  EXPECT_EQ(outcome.step.strategy.accumulate, 4);
  for (const Candidate& candidate : outcome.candidates) {  // 32 sequences
    EXPECT_EQ(candidate.strategy.accumulate, 4);
    EXPECT_TRUE(candidate.feasible) << candidate.reason;
  }
  Setting setting = hinted(small_setting(), "accumulate: 4");
  setting.deck.train->batch = 8;
  EXPECT_TRUE(std::ranges::none_of(setting.search().candidates, [](const Candidate& candidate) {
    return candidate.strategy.microbatches > 2;
  }));
  setting.options.microbatches = {4};
  try {
    setting.search();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "the hints ask for 4 microbatches in each of 4 groups, and the batch has only 8 "
                 "sequence(s)");
  }
}

// The hints hold where memory suffices and the search alone would not recompute or gather twice,
// and where it is too small and the search chooses more of both.
TEST(HintsInSearch, ChoicesOfMemoryAreKept) {
  for (const double part : {2.0, 0.6}) {
    Setting setting = hinted(small_setting(), R"(
operations:
  - {op: "*.ffn.relu", recompute: true}
  - {op: "*.ffn.up.biased", recompute: true}
  - {op: "*.ffn.up", recompute: false}
  - {op: "*.attention", recompute: false}
parameters:
  - {name: "*.ffn.up.weight", storage: [S(0)], reshard_after_forward: true}
  - {name: "*.ffn.up.bias", storage: [S(0)], reshard_after_forward: false}
)");
    const int64_t needed = small_setting().search().candidates[0].memory_bytes;
    setting.options.memory_limit = static_cast<int64_t>(part * static_cast<double>(needed));
    const Graph graph = setting.graph();
    const SearchOutcome outcome = setting.search();
    int checked = 0;
    for (size_t op = 0; op < outcome.step.strategy.ops.size(); ++op) {
      const std::string& name = graph.op_name(static_cast<OpId>(op));
      const bool again = outcome.step.strategy.ops[op].recompute;
      checked += name.ends_with(".ffn.relu") || name.ends_with(".attention") ? 1 : 0;
      EXPECT_TRUE(again || !name.ends_with(".ffn.relu")) << name;
      EXPECT_FALSE(again && (name.ends_with(".attention") || name.ends_with(".ffn.up"))) << name;
    }
    for (const ParameterStrategy& parameter : outcome.step.strategy.parameters) {
      const std::string& name = graph.tensor(parameter.tensor).name;
      checked += name.ends_with("ffn.up.weight") || name.ends_with("ffn.up.bias") ? 1 : 0;
      EXPECT_TRUE(parameter.residency == Residency::pass || !name.ends_with("ffn.up.weight"))
          << name;
      EXPECT_TRUE(parameter.residency == Residency::step || !name.ends_with("ffn.up.bias")) << name;
    }
    EXPECT_GE(checked, 4);
    for (const Candidate& candidate : outcome.candidates) {
      EXPECT_TRUE(candidate.strategy.name != "search" ||
                  broken_hint(graph, setting.options.hints, candidate.strategy).empty());
    }
    EXPECT_LE(outcome.candidates[0].memory_bytes, setting.options.memory_limit);
  }
}

TEST(HintsInSearch, NamedStrategiesTakeChoicesOfMemory) {
  for (const int layers : {2, 24}) {  // of the deeper one a part is simulated
    Setting setting = small_setting();
    setting.deck.model->layers = layers;
    setting = hinted(setting,
                     "{operations: [{op: '*.ffn.relu', recompute: true}], "
                     "parameters: [{name: '*.ffn.up.weight', reshard_after_forward: true}]}");
    const SearchOutcome outcome = setting.search();
    for (const Candidate& candidate : outcome.candidates) {
      EXPECT_TRUE(candidate.feasible) << candidate.strategy.name << ": " << candidate.reason;
      EXPECT_EQ(broken_hint(setting.graph(), setting.options.hints, candidate.strategy), "");
    }
  }
}

TEST(HintsInSearch, LayoutsOfParametersAreKept) {
  const Setting setting = hinted(small_setting(),
                                 "parameters: [{name: 'layers.*.ffn.up.weight', storage: [S(1)]}, "
                                 "{name: head.weight, storage: [R], optimizer_state: ['S(0)@0']}]");
  const Graph graph = setting.graph();
  const Strategy found = setting.search().step.strategy;
  int checked = 0;
  for (const ParameterStrategy& parameter : found.parameters) {
    const std::string& name = graph.tensor(parameter.tensor).name;
    if (name.ends_with("ffn.up.weight")) {
      EXPECT_EQ(to_string(parameter.storage), "S(1)");
      ++checked;
    } else if (name == "head.weight") {
      EXPECT_EQ(to_string(parameter.storage), "R");
      EXPECT_EQ(to_string(parameter.optimizer_state), "S(0)@0");
      ++checked;
    }
  }
  EXPECT_EQ(checked, 3);
}

TEST(HintsInSearch, OfOneAxisLeaveTheOtherFree) {
  Setting setting = small_setting();
  setting.mesh = {{"node", 2}, {"core", 2}};
  setting.machine.links.resize(2, setting.machine.links[0]);
  setting = hinted(setting, "operations: [{op: 'layers.*.ffn.*', rule: [replicate, ~]}]");
  const Graph graph = setting.graph();
  const Strategy found = setting.search().step.strategy;
  EXPECT_EQ(chosen_rule(graph, found, "layers.0.ffn.down", 0), "replicate");
  EXPECT_NE(chosen_rule(graph, found, "layers.0.ffn.down", 1), "replicate");
}

}  // namespace
}  // namespace hidup
