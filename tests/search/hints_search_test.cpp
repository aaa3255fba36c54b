// The search keeps hints.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
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
  EXPECT_NE(chosen_rule(graph, small_setting().search().strategy, "layers.1.ffn.up"), "column");
  const SearchOutcome outcome = setting.search();
  EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
  for (const Candidate& candidate : outcome.candidates) {
    const bool kept = chosen_rule(graph, candidate.strategy, "layers.0.ffn.up") == "column" &&
                      chosen_rule(graph, candidate.strategy, "layers.1.ffn.up") == "column";
    EXPECT_EQ(candidate.feasible, kept) << candidate.strategy.name;
  }
  // A named strategy that does not keep them says which; one that does is a candidate.
  const auto of_name = [&](const std::string& name) {
    return *std::ranges::find_if(outcome.candidates, [&](const Candidate& candidate) {
      return candidate.strategy.name == name;
    });
  };
  EXPECT_EQ(of_name("dp").reason, "the hints ask for layers.0.ffn.up by column, not batch");
  EXPECT_TRUE(of_name("megatron").feasible);
  EXPECT_TRUE(of_name("search").feasible);
}

TEST(HintsInSearch, AWholeStrategyLeavesNoChoice) {
  for (const char* name : {"megatron", "fsdp-kept", "ps", "ep-fastmoe"}) {
    Setting setting = small_setting(4);
    const Graph graph = setting.graph();
    const Strategy strategy = named_strategy(name, graph, setting.mesh);
    setting = hinted(setting, print_strategy(graph, strategy));
    Strategy found = setting.search().strategy;
    found.name = name;
    EXPECT_EQ(print_strategy(graph, found), print_strategy(graph, strategy)) << name;
  }
}

TEST(HintsInSearch, MicrobatchesAreKept) {
  const SearchOutcome outcome = hinted(small_setting(), "microbatches: 8").search();
  EXPECT_TRUE(std::ranges::all_of(outcome.candidates, [](const Candidate& candidate) {
    return candidate.strategy.microbatches == 8;
  }));
  Setting setting = hinted(small_setting(), "microbatches: 8");
  setting.deck.train.batch = 4;
  try {
    setting.search();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "the hints ask for 8 microbatches of 4 sequence(s)");
  }
}

TEST(HintsInSearch, LayoutsOfParametersAreKept) {
  const Setting setting = hinted(small_setting(),
                                 "parameters: [{name: 'layers.*.ffn.up.weight', storage: [S(1)]}, "
                                 "{name: head.weight, storage: [R], optimizer_state: ['S(0)@0']}]");
  const Graph graph = setting.graph();
  const Strategy found = setting.search().strategy;
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
  const Strategy found = setting.search().strategy;
  EXPECT_EQ(chosen_rule(graph, found, "layers.0.ffn.down", 0), "replicate");
  EXPECT_NE(chosen_rule(graph, found, "layers.0.ffn.down", 1), "replicate");
}

}  // namespace
}  // namespace hidup
