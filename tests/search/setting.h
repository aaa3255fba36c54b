// Models and machines for tests of the search.
#pragma once

#include "cost/roofline.h"
#include "models/transformer.h"
#include "program/lower.h"
#include "search/search.h"

namespace hidup {

struct Setting {
  Deck deck;
  int64_t vocab = 1000;
  Mesh mesh = {{"ranks", 4}};
  MachineRates machine;
  SearchOptions options;

  Graph graph() const { return build_model(deck, vocab); }
  CostModel costs() const { return CostModel(roofline_profile(mesh, machine)); }
  SearchOutcome search() const { return search_strategy(graph(), mesh, costs(), options); }
};

// Two layers, 32 sequences of 32 tokens, four ranks of 1 Tflop/s on links of 10 GB/s and 5 us; the
// second layer with experts where there are some.
inline Setting small_setting(int64_t experts = 0) {
  Setting setting;
  setting.deck.model = {.family = "bert",
                        .layers = 2,
                        .hidden = 64,
                        .ffn = 256,
                        .heads = 4,
                        .sequence = 32,
                        .dropout = 0.1};
  if (experts > 0) {
    setting.deck.model.moe = {
        .experts = experts, .every = 2, .router = "top2", .capacity_factor = 1.25};
  }
  setting.deck.train.batch = 32;
  setting.machine = {
      .flops = 1e12, .memory_bandwidth = 1e11, .links = {{.bandwidth = 1e10, .latency_s = 5e-6}}};
  setting.options.lowering = {.bucket_bytes = 1 << 16,
                              .clip_norm = 1.0,
                              .optimizer = {{"beta1", 0.9},
                                            {"beta2", 0.999},
                                            {"epsilon", 1e-8},
                                            {"weight_decay", 0.1},
                                            {"decoupled", 1.0}}};
  return setting;
}

}  // namespace hidup
