#include "sharding/strategy.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "search/named/named_strategies.h"
#include "small_strategy.h"

namespace hidup {
namespace {

TEST(DataParallel, CutsTheBatchAndKeepsParametersWhole) {
  const Graph graph = small_graph();
  const Strategy strategy = named_strategy("dp", graph, {{"node", 2}, {"gpu", 2}});
  ASSERT_EQ(strategy.ops.size(), 3U);
  EXPECT_EQ(to_string(input_layout(strategy.ops[1], 0)), "S(0) S(0)");
  EXPECT_EQ(to_string(input_layout(strategy.ops[1], 1)), "R R");
  EXPECT_EQ(to_string(gradient_layout(strategy.ops[1], 1)), "P P");
  EXPECT_EQ(to_string(output_layout(strategy.ops[1])), "S(0) S(0)");
  EXPECT_EQ(to_string(output_layout(strategy.ops[2])), "P P");
  ASSERT_EQ(strategy.parameters.size(), 2U);
  EXPECT_EQ(to_string(strategy.parameters[0].storage), "R R");
}

TEST(Strategy, PrintsAsAStrategyFile) {
  const Graph graph = small_graph();
  const std::string text = print_strategy(graph, named_strategy("dp", graph, {{"ranks", 2}}));
  EXPECT_NE(text.find("format_version: 1\n"), std::string::npos);
  EXPECT_NE(text.find("  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  - {name: table, storage: [R], optimizer_state: [R]}\n"),
            std::string::npos);
}

TEST(Strategy, UnknownNamesAreRefusedWithTheKnownOnes) {
  const Graph graph = small_graph();
  EXPECT_THROW(named_strategy("fsdp2", graph, {{"ranks", 2}}), Error);
  try {
    find_rule(graph, 1, "colum");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "y has no rule colum; legal: replicate, batch, sequence, "
                 "row, column, partial, factors");
  }
}

}  // namespace
}  // namespace hidup
