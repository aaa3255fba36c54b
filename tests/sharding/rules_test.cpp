#include "sharding/rules.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/operation.h"
#include "graph/text.h"
#include "models/transformer.h"
#include "small_deck.h"

namespace hidup {
namespace {

// Returns every family, with each router, with experts in some blocks and in all, and operations
// that no family has.
std::vector<Graph> every_model() {
  std::vector<Graph> graphs;
  for (const char* family : {"bert", "gpt", "vit", "llama"}) {
    for (const char* router : {"", "top1", "top2", "hash"}) {
      for (const int64_t every : {1, 2}) {
        Deck deck = small_deck_of(family);
        deck.model->kv_heads = 1;
        if (*router != '\0') {
          deck.model->moe = {
              .experts = 5, .every = every, .router = router, .capacity_factor = 1.0};
        }
        graphs.push_back(build_model(deck, 31));
        if (*router != '\0') {
          deck.model->moe.capacity_factor.reset();
          graphs.push_back(build_model(deck, 31));
        }
      }
    }
  }
  // Without a capacity rows are packed.
  graphs.push_back(build_model(
      small_deck_of("gpt", {.experts = 5, .every = 2, .router = "top2", .balance_speed = 0.1}),
      31));
  graphs.push_back(
      parse_graph("graph others\nparameter x : f32[5, 7, 6] = ones\ny = silu(x)\n"
                  "input all : i32[3, 5]\ncounts = round_counts(all) {rows=2}\n",
                  "others"));
  return graphs;
}

void expect_fits(const Placement& placement, const Tensor& tensor, const std::string& what) {
  EXPECT_TRUE(placement.share.is_equal()) << what;
  if (placement.is_shard()) {
    EXPECT_GE(placement.dim, 0) << what;
    EXPECT_LT(placement.dim, static_cast<int>(tensor.shape.size())) << what;
  }
}

TEST(Rules, HaveNamesOfTheirOwn) {
  for (const Graph& graph : every_model()) {
    for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
      std::set<std::string> names;
      for (const Rule& rule : rules_of(graph, op)) {
        EXPECT_TRUE(names.insert(rule.name).second)
            << graph.op_name(op) << " has two rules " << rule.name;
      }
      EXPECT_GT(names.size(), 1U) << graph.op_name(op) << " cannot be cut at all";
    }
  }
}

TEST(Rules, ReplicateComesFirstAndLeavesEverythingWhole) {
  for (const Graph& graph : every_model()) {
    for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
      const Rule rule = rules_of(graph, op)[0];
      const std::vector<Placement> whole(graph.op(op).inputs.size(), Placement::replicate());
      EXPECT_EQ(rule,
                (Rule{"replicate", whole, Placement::replicate(), whole, Placement::replicate()}))
          << graph.op_name(op);
    }
  }
}

// Calls use(graph, operation, rule, their names) for all rules of every model.
template <typename Use>
void for_every_rule(Use use) {
  for (const Graph& graph : every_model()) {
    for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
      for (const Rule& rule : rules_of(graph, id)) {
        use(graph, graph.op(id), rule, graph.op_name(id) + ": " + rule.name);
      }
    }
  }
}

TEST(Rules, FitTheDimensionsOfTheirTensors) {
  std::set<OpKind> seen;
  for_every_rule([&](const Graph& graph, const Op& op, const Rule& rule, const std::string& what) {
    seen.insert(op.kind);
    ASSERT_EQ(rule.inputs.size(), op.inputs.size()) << what;
    ASSERT_EQ(rule.input_gradients.size(), op.inputs.size()) << what;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      expect_fits(rule.inputs[i], graph.tensor(op.inputs[i]), what);
      expect_fits(rule.input_gradients[i], graph.tensor(op.inputs[i]), what);
    }
    expect_fits(rule.output, graph.tensor(op.output), what);
  });
  EXPECT_EQ(seen.size(), all_operations().size()) << "a kind of operation is in no model";
}

// Integers select computations, and a step's inputs are data: no rank can use a summand of them.
TEST(Rules, IntegersAndInputsAreNeverSummands) {
  for_every_rule([](const Graph& graph, const Op& op, const Rule& rule, const std::string& what) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& tensor = graph.tensor(op.inputs[i]);
      EXPECT_FALSE((tensor.dtype == DType::i32 || tensor.role == Tensor::Role::input) &&
                   rule.inputs[i].is_partial())
          << what;
    }
  });
}

// A gradient is cut like its tensor, or whole, or a summand.
TEST(Rules, GradientsOfShardsAreShards) {
  for_every_rule([](const Graph& graph, const Op& op, const Rule& rule, const std::string& what) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (rule.inputs[i].is_shard() && graph.tensor(op.inputs[i]).dtype == DType::f32) {
        EXPECT_EQ(rule.input_gradients[i], rule.inputs[i]) << what << " of input " << i;
      }
    }
  });
  EXPECT_EQ(gradient_of(Placement::partial()), Placement::replicate());
  EXPECT_EQ(gradient_of(Placement::shard(2)), Placement::shard(2));
}

}  // namespace
}  // namespace hidup
