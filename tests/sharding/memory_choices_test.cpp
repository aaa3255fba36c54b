// Operations that a level recomputes, by names and kinds.
#include "sharding/memory_choices.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "models/transformer.h"
#include "search/named/named_strategies.h"
#include "small_deck.h"

namespace hidup {
namespace {

using Names = std::vector<std::string>;

Graph model(const std::string& family) {
  Deck deck = small_deck_of(family);
  deck.model->kv_heads = 3;
  deck.train->batch = 4;
  return build_model(deck, 31);
}

// Returns the operations with names of that beginning that are recomputed, or those that are not.
Names with_flag(const Graph& graph, Recompute level, const std::string& beginning, bool again) {
  const Strategy strategy =
      with_recompute(graph, named_strategy("dp", graph, {{"ranks", 2}}), level);
  Names names;
  for (OpId op = 0; op < static_cast<OpId>(strategy.ops.size()); ++op) {
    const std::string& name = graph.op_name(op);
    if (strategy.ops[static_cast<size_t>(op)].recompute == again && name.starts_with(beginning)) {
      names.push_back(name);
    }
  }
  return names;
}

TEST(Recompute, BlocksKeepWhatOthersRead) {
  for (const char* family : {"bert", "gpt", "llama"}) {
    const Graph graph = model(family);
    EXPECT_EQ(with_flag(graph, Recompute::block, "layers.0.", false).size(), 1U) << family;
    EXPECT_EQ(with_flag(graph, Recompute::block, "layers.1.", false).size(), 1U) << family;
    EXPECT_EQ(with_flag(graph, Recompute::block, "", true).size(),
              with_flag(graph, Recompute::none, "layers.", false).size() - 2)
        << family;
  }
  EXPECT_EQ(with_flag(model("bert"), Recompute::block, "layers.0.", false),
            (Names{"layers.0.norm2"}));
}

TEST(Recompute, OfCheapOperationsIsByTheirRecords) {
  EXPECT_EQ(with_flag(model("llama"), Recompute::cheap, "layers.0.", true),
            (Names{"layers.0.norm1", "layers.0.attention.q.turned", "layers.0.attention.k.turned",
                   "layers.0.attention.dropout", "layers.0.norm2", "layers.0.ffn.swiglu",
                   "layers.0.ffn.dropout"}));
  EXPECT_TRUE(with_flag(model("gpt"), Recompute::none, "", true).empty());
}

TEST(Recompute, LevelsHaveNames) {
  for (const Recompute level : kRecomputes) {
    EXPECT_EQ(recompute_of(name_of(level)), level);
  }
  EXPECT_THROW(recompute_of("all"), Error);
}

TEST(WithKept, IsOfAllParameters) {
  const Graph graph = model("gpt");
  const Strategy fsdp = named_strategy("fsdp", graph, {{"ranks", 2}});
  Strategy kept = with_residency(fsdp, Residency::step);
  kept.name = "fsdp-kept";
  EXPECT_EQ(print_strategy(graph, kept),
            print_strategy(graph, named_strategy("fsdp-kept", graph, {{"ranks", 2}})));
  EXPECT_EQ(print_strategy(graph, with_residency(fsdp, Residency::pass)),
            print_strategy(graph, fsdp));
}

}  // namespace
}  // namespace hidup
