// Names in strategy files that plain YAML would read as other values.
#include <gtest/gtest.h>

#include <string>

#include "search/named/named_strategies.h"
#include "sharding/read_strategy.h"
#include "token_graph.h"

namespace hidup {
namespace {

const Mesh kRanks = {{"ranks", 2}};

TEST(StrategyNames, AnyIsKept) {
  const Graph graph = token_graph(R"(parameter table : f32[10, 8] = uniform(0.1) decay
x = embedding(tokens, table)
loss = cross_entropy(x, targets)
)");
  for (const std::string name :
       {"node=dp,gpu=megatron", "my best one", "a: b", "x # y", "#", "", " ", "null", "~", "*x",
        "&x", "!x", "[x", "- x", "%", "say \"hi\"", "it's", "C:\\x", "\xc3\xa9"}) {
    Strategy strategy = named_strategy("dp", graph, kRanks);
    strategy.name = name;
    const std::string text = print_strategy(graph, strategy);
    EXPECT_EQ(parse_strategy(graph, kRanks, text, "s.yaml").name, name) << text;
  }
}

// A graph may have such names.
TEST(StrategyNames, OfTensorsThatPlainYamlReadsAsNothingAreKept) {
  const Graph graph = token_graph(R"(parameter Null : f32[10, 8] = uniform(0.1) decay
null = embedding(tokens, Null)
loss = cross_entropy(null, targets)
)");
  Strategy strategy = named_strategy("dp", graph, kRanks);
  strategy.stages = {0, 1};
  const std::string text = print_strategy(graph, strategy);
  EXPECT_EQ(print_strategy(graph, parse_strategy(graph, kRanks, text, "s.yaml")), text);
}

}  // namespace
}  // namespace hidup
