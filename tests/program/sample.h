// A small model and its data-parallel program, for the tests of this folder.
#pragma once

#include "models/transformer.h"
#include "program/lower.h"
#include "search/named.h"

namespace hidup {

inline Deck sample_deck(int64_t layers = 2) {
  Deck deck;
  deck.model = {.family = "bert",
                .layers = layers,
                .hidden = 12,
                .ffn = 20,
                .heads = 3,
                .sequence = 7,
                .dropout = 0.1};
  deck.train.batch = 5;
  return deck;
}

inline LoweringOptions sample_options(int64_t bucket_bytes) {
  return {.bucket_bytes = bucket_bytes,
          .clip_norm = 1.0,
          .optimizer = {{"beta1", 0.9},
                        {"beta2", 0.999},
                        {"epsilon", 1e-8},
                        {"weight_decay", 0.1},
                        {"decoupled", 1.0}}};
}

inline Program sample_program(int64_t ranks, int64_t bucket_bytes = 2048, int64_t layers = 2) {
  const Graph graph = build_model(sample_deck(layers), 31);
  return lower(graph, named_strategy("dp", graph, {{"ranks", ranks}}),
               sample_options(bucket_bytes));
}

}  // namespace hidup
