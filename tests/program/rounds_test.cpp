// Experts in rounds take less memory. That they compute the same is in tests/strategies.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "program/memory.h"
#include "program/print.h"
#include "program/verify.h"
#include "sample.h"

namespace hidup {
namespace {

// Two of eight experts per token, on four ranks.
Program program_with_slack(std::optional<double> slack) {
  Deck deck = sample_deck();
  deck.model->sequence = 16;
  deck.model->moe = {.experts = 8, .every = 2, .router = "top2"};
  const Graph graph = with_slack(build_model(deck, 31), slack);
  return lower(graph, named_strategy("ep-fastmoe", graph, {{"ranks", 4}}), sample_options(2048));
}

// Returns the bytes of the rank's largest value with packed rows.
int64_t largest_rows(const Program& program) {
  int64_t largest = 0;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    largest = std::max(largest, program.value(id).packed ? program.local_bytes(id, 0) : 0);
  }
  return largest;
}

// With room for all rows, a rank has room for those of all four ranks.
TEST(Rounds, TakeLessMemory) {
  const Program all = program_with_slack({});
  const Program rounds = program_with_slack(1.0);
  EXPECT_EQ(largest_rows(all), 4 * largest_rows(rounds));
  for (int64_t rank = 0; rank < 4; ++rank) {
    const MemoryPlan plan = plan_memory(rounds, rank);
    EXPECT_NO_THROW(verify(rounds, plan));
    EXPECT_LT(plan.activation_bytes, plan_memory(all, rank).activation_bytes);
  }
}

// 16 tokens may all choose an expert, which has four rows in the mean.
TEST(Rounds, AreOneWhereAllRowsHaveRoom) {
  const std::string all = print_program(program_with_slack({}));
  EXPECT_TRUE(print_program(program_with_slack(4.0)) == all);
  EXPECT_TRUE(print_program(program_with_slack(3.7)) != all);
}

}  // namespace
}  // namespace hidup
