// Models and machines for tests of the search.
#pragma once

#include <fmt/format.h>

#include "cost/roofline.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/text.h"
#include "models/transformer.h"
#include "search/memory_limit.h"
#include "search/search.h"
#include "simple_costs.h"

namespace hidup {

// Returns the outcome of a search that succeeds.
inline SearchOutcome searched(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                              const SearchOptions& options) {
  return std::get<SearchOutcome>(search_strategy(graph, mesh, costs, options));
}

struct Setting {
  Deck deck;
  int64_t vocab = 1000;
  Mesh mesh = {{"ranks", 4}};
  MachineRates machine;
  SearchOptions options;

  Graph graph() const { return build_model(deck, vocab); }
  CostModel costs() const { return CostModel(roofline_profile(mesh, machine)); }
  SearchOutcome search() const { return searched(graph(), mesh, costs(), options); }
  int64_t least_memory_bytes() const {
    return least_memory_strategy(graph(), mesh, costs(), options).bytes;
  }
};

// Returns a deck of 32 sequences of 32 tokens; every second layer has experts where `experts` > 0.
inline Deck small_deck(int64_t layers = 2, int64_t experts = 0) {
  Deck deck;
  deck.model = {.family = "bert",
                .layers = layers,
                .hidden = 64,
                .ffn = 256,
                .heads = 4,
                .sequence = 32,
                .dropout = 0.1};
  if (experts > 0) {
    deck.model->moe = {.experts = experts, .every = 2, .router = "top2", .capacity_factor = 1.25};
  }
  deck.train->batch = 32;
  return deck;
}

// Returns an embedding and two products with a ReLU between them, for sequences of 32 tokens.
inline Graph two_products(int64_t sequences, int64_t tokens) {
  return parse_graph(fmt::format(R"(graph small
input tokens : i32[{0}, 32]
input targets : i32[{0}, 32]
parameter table : f32[{1}, 64] = uniform(0.1) decay
parameter up : f32[64, 256] = uniform(0.1) decay
parameter down : f32[256, 100] = uniform(0.1) decay
x = embedding(tokens, table)
y = matmul(x, up)
z = relu(y)
logits = matmul(z, down)
loss = cross_entropy(logits, targets)
)",
                                 sequences, tokens),
                     "small");
}

// Returns two layers on four ranks of 1 Tflop/s, with links of 10 GB/s and 5 us.
inline Setting small_setting(int64_t experts = 0) {
  Setting setting;
  setting.deck = small_deck(2, experts);
  setting.machine = {
      .flops = 1e12, .memory_bandwidth = 1e11, .links = {{.bandwidth = 1e10, .latency_s = 5e-6}}};
  setting.options.lowering = simple_lowering();
  return setting;
}

// Returns a setting for tests that need no optimal plan.
inline Setting quick_setting(int64_t experts = 0) {
  Setting setting = small_setting(experts);
  setting.options.level = SearchLevel::fast;
  return setting;
}

inline Setting setting_in_one_group(int64_t experts = 0) {
  Setting setting = quick_setting(experts);
  setting.options.accumulate = {1};  // with groups the advice need not be exact
  return setting;
}

}  // namespace hidup
