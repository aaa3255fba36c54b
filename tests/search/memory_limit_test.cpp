// Memory that does not suffice: what the error says, and that its advice is true.
#include "search/memory_limit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "core/check.h"
#include "core/units.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "search/memory_advice.h"
#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

Setting setting_in_one_group(int64_t experts = 0) {
  Setting setting = quick_setting(experts);
  setting.options.accumulate = {1};  // with groups advice need not be exact
  return setting;
}

int64_t least_memory_bytes(const Setting& setting) {
  return least_memory_strategy(setting.graph(), setting.mesh, setting.costs(), setting.options)
      .bytes;
}

// The message of the error that the search ends in; empty where it ends well.
std::string message_of(const Setting& setting) {
  try {
    setting.search();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    return error.what();
  }
}

// The first number behind the text; -1 where it is not in the message.
int64_t number_behind(const std::string& message, const std::string& text) {
  std::smatch match;
  return std::regex_search(message, match, std::regex(text + "(\\d+)")) ? std::stoll(match[1]) : -1;
}

TEST(MemoryLimit, TheLeastIsNoMoreThanAnyNamedStrategyNeeds) {
  for (const int64_t experts : {0, 4}) {
    const Setting setting = setting_in_one_group(experts);
    const Graph graph = setting.graph();
    const LeastMemoryStrategy least =
        least_memory_strategy(graph, setting.mesh, setting.costs(), setting.options);
    const auto bytes = [&](const Strategy& strategy) {
      return plan_memory(lower(graph, strategy, setting.options.lowering), 0).bytes;
    };
    EXPECT_EQ(least.bytes, bytes(least.strategy));
    for (const NamedStrategy& named : named_strategies()) {
      EXPECT_LE(least.bytes, bytes(named_strategy(named.name, graph, setting.mesh)));
    }
  }
}

// Planning a deep graph as a whole takes minutes for 1,000 layers.
TEST(MemoryLimit, DeepGraphsAreSizedByReducedOnes) {
  Setting setting = setting_in_one_group();
  setting.deck = small_deck(30);
  const Graph graph = setting.graph();
  const LeastMemoryStrategy least =
      least_memory_strategy(graph, setting.mesh, setting.costs(), setting.options);
  ASSERT_FALSE(least.reduced.empty());
  const auto planned = static_cast<double>(
      plan_memory(lower(graph, least.strategy, setting.options.lowering), 0).bytes);
  EXPECT_NEAR(static_cast<double>(least.bytes), planned, 0.005 * planned);

  // Near the limit the whole is planned.
  setting.options.memory_limit = least.bytes - 1;
  const LeastMemoryStrategy exact =
      least_memory_strategy(graph, setting.mesh, setting.costs(), setting.options);
  EXPECT_TRUE(exact.reduced.empty());
  EXPECT_EQ(static_cast<double>(exact.bytes), planned);

  setting.options.memory_limit = least.bytes / 2;
  setting.options.advice = false;
  EXPECT_NE(message_of(setting), "");
}

TEST(MemoryLimit, TheLargerTheProgramTheFewerSearchesForAdvice) {
  EXPECT_EQ(advice_searches(0, 1), 8);
  EXPECT_EQ(advice_searches(500, 1), 8);
  EXPECT_EQ(advice_searches(250, 4), 4);
  EXPECT_EQ(advice_searches(1000, 1), 4);
  EXPECT_EQ(advice_searches(5000, 4), 1);
  EXPECT_EQ(advice_searches(5001, 4), 0);
}

TEST(MemoryLimit, WhatJustFitsIsFound) {
  for (const Mesh& mesh : {Mesh{{"ranks", 4}}, Mesh{{"node", 2}, {"core", 2}}}) {
    Setting setting = setting_in_one_group();
    setting.mesh = mesh;
    setting.machine.links.resize(mesh.size(), setting.machine.links[0]);
    setting.options.memory_limit = least_memory_bytes(setting);
    const SearchOutcome outcome = setting.search();
    EXPECT_LE(outcome.candidates[0].memory_bytes, setting.options.memory_limit);
    EXPECT_GE(outcome.gap, 0.0);
  }
}

// The least is that of the strategies which are tried when none fits: the search, which bounds the
// bytes that it estimates, may find one below it.
TEST(MemoryLimit, BelowTheLeastWhatIsFoundFitsOrNothingIs) {
  int refused = 0;
  for (const double part : {0.999, 0.95, 0.9, 0.7, 0.5}) {
    Setting setting = setting_in_one_group();
    const auto least = static_cast<double>(least_memory_bytes(setting));
    setting.options.memory_limit = static_cast<int64_t>(part * least);
    setting.options.advice = false;
    try {
      EXPECT_LE(setting.search().candidates[0].memory_bytes, setting.options.memory_limit);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::infeasible);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(MemoryLimit, CandidatesThatDoNotFitSayWhatTheyNeed) {
  Setting setting = setting_in_one_group();
  setting.options.memory_limit = 5'200'000;
  const SearchOutcome outcome = setting.search();
  bool feasible = true;  // these come first
  int others = 0;
  for (const Candidate& candidate : outcome.candidates) {
    EXPECT_TRUE(feasible || !candidate.feasible);
    feasible = candidate.feasible;
    EXPECT_EQ(candidate.feasible, candidate.memory_bytes <= setting.options.memory_limit);
    EXPECT_GT(candidate.seconds, 0.0);
    EXPECT_GT(candidate.busy.compute_s, 0.0);
    EXPECT_EQ(candidate.reason,
              candidate.feasible
                  ? ""
                  : fmt::format("needs {} of {} per rank", format_bytes(candidate.memory_bytes),
                                format_bytes(setting.options.memory_limit)));
    others += candidate.feasible ? 0 : 1;
  }
  EXPECT_GT(others, 0);
  for (const std::string_view name : plain_names(setting.mesh)) {
    EXPECT_TRUE(std::ranges::any_of(outcome.candidates, [&](const Candidate& candidate) {
      return candidate.strategy.name == name;
    })) << name;
  }
}

TEST(MemoryLimit, TheErrorSaysWhatIsMissingAndWhatWouldDo) {
  Setting setting = setting_in_one_group();
  const int64_t needed = least_memory_bytes(setting);
  Setting smaller = setting;
  smaller.deck.train->batch = setting.deck.train->batch / 4;
  setting.options.memory_limit = least_memory_bytes(smaller);
  const std::string message = message_of(setting);
  EXPECT_NE(message.find(fmt::format("no strategy fits in {} per rank",
                                     format_bytes(setting.options.memory_limit))),
            std::string::npos)
      << message;
  EXPECT_NE(message.find(fmt::format("needs {}, {} too much", format_bytes(needed),
                                     format_bytes(needed - setting.options.memory_limit))),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("its largest tensors on a rank: "), std::string::npos) << message;
  EXPECT_NE(message.find("(activation)"), std::string::npos) << message;

  // Its advice is right, and is the nearest of its kind.
  EXPECT_GE(number_behind(message, "train.batch "), setting.deck.train->batch / 4) << message;
  const int64_t ranks = number_behind(message, "axis ranks: ");
  ASSERT_GT(ranks, 4) << message;
  Setting larger = setting;
  larger.mesh[0].size = ranks;
  EXPECT_EQ(message_of(larger), "");
  larger.mesh[0].size = ranks / 2;
  EXPECT_NE(message_of(larger), "");
}

// Each by itself, with what a run of it takes; the nearest first.
TEST(MemoryLimit, EveryChangeIsTrueAndTheNearestComesFirst) {
  Setting setting = setting_in_one_group();
  setting.deck.model->vocab = 30;  // activations are most of the memory
  setting.options.microbatches = {1};
  Setting half = setting;
  half.deck.train->batch = setting.deck.train->batch / 2;
  setting.options.memory_limit = least_memory_bytes(half);
  const std::string message = message_of(setting);
  const auto expect_line = [&](const Setting& changed, const Graph& graph,
                               const std::string& line) {
    const SearchOutcome found =
        search_strategy(graph, changed.mesh, changed.costs(), changed.options);
    const auto sequences = static_cast<double>(changed.deck.train->batch);
    EXPECT_NE(message.find(fmt::format("\n{} with {} per rank: {} per step, {} per sequence", line,
                                       format_bytes(found.candidates[0].memory_bytes),
                                       format_seconds(found.step.seconds()),
                                       format_seconds(found.step.seconds() / sequences))),
              std::string::npos)
        << line << "\n"
        << message;
  };
  Setting smaller = setting;
  smaller.deck.train->batch = number_behind(message, "train.batch ");
  expect_line(smaller, smaller.graph(),
              fmt::format("train.batch {} instead of 32 fits", smaller.deck.train->batch));
  expect_line(setting, with_precision(setting.graph(), DType::bf16), "model.precision bf16 fits");
  Setting larger = setting;
  larger.mesh[0].size = 8;
  larger.options.level = SearchLevel::fast;  // as the advice: the proof may find other plans
  const SearchOutcome more = larger.search();
  const std::string told = fmt::format(
      "\n8 ranks instead of 4 (axis ranks: 8) fit with {} per rank: {} per step",
      format_bytes(more.candidates[0].memory_bytes), format_seconds(more.step.seconds()));
  EXPECT_NE(message.find(told), std::string::npos) << told << "\n" << message;
  // A batch of 16 or more is nearer than half the bits.
  EXPECT_LT(message.find("train.batch "), message.find("model.precision bf16")) << message;
  EXPECT_LT(message.find("model.precision bf16"), message.find("ranks instead of 4")) << message;
}

// One rank has sent no messages.
TEST(MemoryLimit, TimesThatNobodyKnowsAreNotTold) {
  Setting setting = setting_in_one_group();
  setting.mesh[0].size = 2;
  setting.options.memory_limit = least_memory_bytes(setting);
  setting.mesh[0].size = 1;
  const std::string message = message_of(setting);
  EXPECT_NE(message.find("2 ranks instead of 1 (axis ranks: 2) fit with "), std::string::npos)
      << message;
  EXPECT_NE(message.find("per rank; how long messages take is not known"), std::string::npos)
      << message;
}

// By what a run does: a search may find a strategy where no other fits.
TEST(MemoryLimit, TheBatchThatItNamesIsTheLargestThatFits) {
  for (const Mesh& mesh : {Mesh{{"ranks", 4}}, Mesh{{"node", 2}, {"core", 2}}}) {
    Setting setting = setting_in_one_group();
    setting.mesh = mesh;
    setting.machine.links.resize(mesh.size(), setting.machine.links[0]);
    setting.options.microbatches = {1};
    setting.deck.train->batch = 9;
    setting.options.memory_limit = least_memory_bytes(setting);
    setting.deck.train->batch = 48;
    const std::string message = message_of(setting);
    const int64_t batch = number_behind(message, "train.batch ");
    ASSERT_GE(batch, 9) << message;
    setting.deck.train->batch = batch;
    const SearchOutcome found = setting.search();
    EXPECT_NE(
        message.find(fmt::format(
            "train.batch {} instead of 48 fits with {} per rank: {} per step, {} per sequence",
            batch, format_bytes(found.candidates[0].memory_bytes),
            format_seconds(found.step.seconds()),
            format_seconds(found.step.seconds() / static_cast<double>(batch)))),
        std::string::npos)
        << message;
    const int64_t ranks = number_behind(message, "axis [a-z]+: ") * (mesh.size() == 1 ? 1 : 2);
    ASSERT_GT(ranks, 4) << message;
    EXPECT_EQ(message.find("train.batch") < message.find("ranks instead of"),
              48.0 / static_cast<double>(batch) <= static_cast<double>(ranks) / 4.0)
        << message;
    setting.options.advice = false;
    for (int64_t larger = batch + 1; larger <= batch + 4; ++larger) {
      setting.deck.train->batch = larger;
      EXPECT_NE(message_of(setting), "") << larger;
    }
  }
}

TEST(MemoryLimit, TheErrorSaysThatNothingWouldDo) {
  Setting setting = setting_in_one_group();
  setting.options.memory_limit = 1000;
  const std::string message = message_of(setting);
  EXPECT_NE(
      message.find("neither a smaller batch nor more microbatches nor 64 times as many ranks"),
      std::string::npos)
      << message;
  EXPECT_EQ(message.find("train.batch"), std::string::npos) << message;
}

TEST(MemoryLimit, HintsMayBeWhyNothingFits) {
  Setting setting = setting_in_one_group();
  setting.options.memory_limit = least_memory_bytes(setting) + 100'000;
  EXPECT_EQ(message_of(setting), "");
  setting.options.hints =
      read_hints(setting.graph(), setting.mesh,
                 "parameters: [{name: '*', storage: [R], optimizer_state: [R]}]", "h.yaml");
  const std::string message = message_of(setting);
  EXPECT_NE(message.find("no strategy that keeps the hints fits in"), std::string::npos) << message;
  EXPECT_NE(message.find("without the hints it fits with"), std::string::npos) << message;
}

}  // namespace
}  // namespace hidup
