// A small model and its data-parallel program.
#pragma once

#include <functional>

#include "models/transformer.h"
#include "program/lower.h"
#include "search/named/named_strategies.h"
#include "small_deck.h"

namespace hidup {

inline Deck sample_deck(int64_t layers = 2) {
  Deck deck = small_deck_of("bert");
  deck.model->layers = layers;
  return deck;
}

inline LoweringOptions sample_options(int64_t bucket_bytes) {
  return {
      .bucket_bytes = bucket_bytes,
      .clip_norm = 1.0,
      .optimizer = {
          .beta1 = 0.9, .beta2 = 0.999, .decoupled = true, .epsilon = 1e-8, .weight_decay = 0.1}};
}

inline Program sample_program(int64_t ranks, int64_t bucket_bytes = 2048, int64_t layers = 2) {
  const Graph graph = build_model(sample_deck(layers), 31);
  return lower(graph, named_strategy("dp", graph, {{"ranks", ranks}}),
               sample_options(bucket_bytes));
}

// Calls `use` with the programs of all named strategies, with one microbatch and with two, of a
// model with experts: of the step, or of the forward pass alone.
inline void for_all_programs(int64_t ranks, const std::function<void(const Program&)>& use,
                             bool trains = true) {
  Deck deck = sample_deck();
  deck.model->moe = {.experts = 3, .every = 2, .router = "top2", .capacity_factor = 1.25};
  const Graph graph = build_model(deck, 31);
  for (const NamedStrategy& named : named_strategies()) {
    for (const int microbatches : {1, 2}) {
      Strategy strategy = named_strategy(named.name, graph, {{"ranks", ranks}});
      strategy.microbatches = microbatches;
      use(trains ? lower(graph, strategy, sample_options(2048))
                 : lower_forward(graph, strategy, sample_options(2048)));
    }
  }
}

}  // namespace hidup
