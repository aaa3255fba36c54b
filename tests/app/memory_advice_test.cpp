// The error names the missing bytes where memory does not suffice, and its advice is true.
#include "app/memory_advice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <regex>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "search/memory_limit.h"
#include "setting.h"

namespace hidup {
namespace {

// Returns costs for other meshes; unknown where an axis of one rank, which has no link, grows.
CostsOf costs_of(const Setting& setting) {
  return [setting](const Mesh& mesh, std::optional<size_t>) -> std::optional<CostModel> {
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      if (setting.mesh[axis].size == 1 && mesh[axis].size > 1) {
        return std::nullopt;
      }
    }
    Setting changed = setting;
    changed.mesh = mesh;
    return changed.costs();
  };
}

// Returns the message of the error that ends the search; empty where the search succeeds.
std::string message_of(const Setting& setting) {
  const Graph graph = setting.graph();
  try {
    const CostModel costs = setting.costs();
    search_or_advise(
        {graph, setting.mesh, setting.options, costs, RankCosts(costs), costs_of(setting)});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    return error.what();
  }
}

// Returns the first number after the text; -1 where the message lacks the text.
int64_t number_behind(const std::string& message, const std::string& text) {
  std::smatch match;
  return std::regex_search(message, match, std::regex(text + "(\\d+)")) ? std::stoll(match[1]) : -1;
}

TEST(MemoryAdvice, TheLargerTheProgramTheFewerSearchesForAdvice) {
  EXPECT_EQ(advice_searches(0, 1), 8);
  EXPECT_EQ(advice_searches(500, 1), 8);
  EXPECT_EQ(advice_searches(250, 4), 4);
  EXPECT_EQ(advice_searches(1000, 1), 4);
  EXPECT_EQ(advice_searches(5000, 4), 1);
  EXPECT_EQ(advice_searches(5001, 4), 0);
}

TEST(MemoryAdvice, TheErrorSaysWhatIsMissingAndWhatWouldDo) {
  Setting setting = setting_in_one_group();
  const int64_t needed = setting.least_memory_bytes();
  Setting smaller = setting;
  smaller.deck.train->batch = setting.deck.train->batch / 4;
  setting.options.memory_limit = smaller.least_memory_bytes();
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

  // The advice is right, and no smaller change of its kind suffices.
  EXPECT_GE(number_behind(message, "train.batch "), setting.deck.train->batch / 4) << message;
  const int64_t ranks = number_behind(message, "axis ranks: ");
  ASSERT_GT(ranks, 4) << message;
  Setting larger = setting;
  larger.mesh[0].size = ranks;
  EXPECT_EQ(message_of(larger), "");
  larger.mesh[0].size = ranks / 2;
  EXPECT_NE(message_of(larger), "");
}

// The error names every change that suffices alone, with the memory of a run, nearest first.
TEST(MemoryAdvice, EveryChangeIsTrueAndTheNearestComesFirst) {
  Setting setting = setting_in_one_group();
  setting.deck.model->vocab = 30;  // activations are most of the memory
  setting.options.microbatches = {1};
  Setting half = setting;
  half.deck.train->batch = setting.deck.train->batch / 2;
  setting.options.memory_limit = half.least_memory_bytes();
  const std::string message = message_of(setting);
  const auto expect_line = [&](const Setting& changed, const Graph& graph,
                               const std::string& line) {
    const SearchOutcome found = searched(graph, changed.mesh, changed.costs(), changed.options);
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
  larger.options.level = SearchLevel::fast;  // as the advice: a proof may find other plans
  const SearchOutcome more = larger.search();
  const std::string told = fmt::format(
      "\n8 ranks instead of 4 (axis ranks: 8) fit with {} per rank: {} per step",
      format_bytes(more.candidates[0].memory_bytes), format_seconds(more.step.seconds()));
  EXPECT_NE(message.find(told), std::string::npos) << told << "\n" << message;
  // A batch of 16 or more is a smaller change than 16 bits.
  EXPECT_LT(message.find("train.batch "), message.find("model.precision bf16")) << message;
  EXPECT_LT(message.find("model.precision bf16"), message.find("ranks instead of 4")) << message;
}

// The link of an axis of one rank is unknown, so no time is predicted.
TEST(MemoryAdvice, TimesThatNobodyKnowsAreNotTold) {
  Setting setting = setting_in_one_group();
  setting.mesh[0].size = 2;
  setting.options.memory_limit = setting.least_memory_bytes();
  setting.mesh[0].size = 1;
  const std::string message = message_of(setting);
  EXPECT_NE(message.find("2 ranks instead of 1 (axis ranks: 2) fit with "), std::string::npos)
      << message;
  EXPECT_NE(message.find("per rank; how long messages take is not known"), std::string::npos)
      << message;
}

// The batch is checked by searches, as runs do them: a search may find a plan where no other fits.
TEST(MemoryAdvice, TheBatchThatItNamesIsTheLargestThatFits) {
  for (const Mesh& mesh : {Mesh{{"ranks", 4}}, Mesh{{"node", 2}, {"core", 2}}}) {
    Setting setting = setting_in_one_group();
    setting.mesh = mesh;
    setting.machine.links.resize(mesh.size(), setting.machine.links[0]);
    setting.options.microbatches = {1};
    setting.deck.train->batch = 9;
    setting.options.memory_limit = setting.least_memory_bytes();
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
    for (int64_t larger = batch + 1; larger <= batch + 4; ++larger) {
      setting.deck.train->batch = larger;
      EXPECT_TRUE(std::holds_alternative<Infeasible>(
          search_strategy(setting.graph(), setting.mesh, setting.costs(), setting.options)))
          << larger;
    }
  }
}

TEST(MemoryAdvice, TheErrorSaysThatNothingWouldDo) {
  Setting setting = setting_in_one_group();
  setting.options.memory_limit = 1000;
  const std::string message = message_of(setting);
  EXPECT_NE(
      message.find("neither a smaller batch nor more microbatches nor 64 times as many ranks"),
      std::string::npos)
      << message;
  EXPECT_EQ(message.find("train.batch"), std::string::npos) << message;
}

TEST(MemoryAdvice, HintsMayBeWhyNothingFits) {
  Setting setting = setting_in_one_group();
  setting.options.memory_limit = setting.least_memory_bytes() + 100'000;
  EXPECT_EQ(message_of(setting), "");
  setting.options.hints =
      read_hints(setting.graph(), setting.mesh,
                 "parameters: [{name: '*', storage: [R], optimizer_state: [R]}]", "h.yaml");
  const std::string message = message_of(setting);
  EXPECT_NE(message.find("no strategy that keeps the hints fits in"), std::string::npos) << message;
  EXPECT_NE(message.find("without the hints it fits with"), std::string::npos) << message;
}

TEST(MemoryAdvice, EndsWithTheDeadline) {
  Setting setting = small_setting(0);
  setting.options.memory_limit = 1 << 16;
  for (const int64_t questions : {0, 1000}) {
    std::atomic<int64_t> left = questions;
    setting.options.deadline = Deadline::after_questions(left);
    const std::string message = message_of(setting);
    EXPECT_NE(message.find("the time limit ended the search for what"), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace hidup
