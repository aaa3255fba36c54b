#include "tried_training.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "core/check.h"
#include "saved_run.h"
#include "strategy_cases.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

constexpr int kSteps = 3;
constexpr int kSaved = 1;

// Returns a text such as "6 ranks, a 2 (numbered 0), b 3 (numbered 1)", with the strategy.
std::string describe(const Graph& graph, const Strategy& strategy) {
  std::ostringstream text;
  text << ranks_of(strategy.mesh) << " ranks";
  for (const Axis& axis : strategy.mesh) {
    text << ", " << axis.name << " " << axis.size << " (numbered " << axis.numbered << ")";
  }
  text << "\n" << print_strategy(graph, strategy);
  return text.str();
}

}  // namespace

std::pair<int, int> cases_to_try(const char* variable, const char* fallback) {
  const char* text = std::getenv(variable);
  std::istringstream words(text == nullptr ? fallback : text);
  std::pair<int, int> ends;
  words >> ends.first >> ends.second;
  check(!words.fail() && ends.first <= ends.second, "{} is no FIRST LAST", variable);
  return ends;
}

void try_training(const std::string& name, const Graph& graph,
                  const std::function<Strategy()>& strategy) {
  const Strategy first = strategy();
  SCOPED_TRACE(name + ": " + describe(graph, first));
  const ShortRun expected = run_alone(graph, kSteps, kStrategyVocab);
  const TemporaryFolder folder;
  const SavedAt saved{folder / "", kSaved};
  ShortRun found;
  ASSERT_NO_THROW(
      found = run_saved(graph, first, static_cast<int>(ranks_of(first.mesh)), kSteps, saved));
  EXPECT_EQ(differences(expected, found), "");
  const Strategy second = strategy();
  SCOPED_TRACE("gone on with: " + describe(graph, second));
  std::vector<double> losses;
  ASSERT_NO_THROW(
      losses = resume(graph, second, static_cast<int>(ranks_of(second.mesh)), kSteps, saved));
  ASSERT_EQ(losses.size(), size_t{kSteps - kSaved});
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i] / expected.losses[kSaved + i], 1.0, Bounds().loss);
  }
}

}  // namespace hidup
