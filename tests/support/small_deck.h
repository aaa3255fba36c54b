// A deck of a small model, which tests change where they need something else.
#pragma once

#include <string>

#include "deck/deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"

namespace hidup {

// Returns two blocks of sizes that do not divide evenly, and five sequences.
inline Deck small_deck_of(const std::string& family, const MoeDeck& moe = {}) {
  Deck deck;
  deck.model = {.family = family,
                .layers = 2,
                .hidden = 12,
                .ffn = 20,
                .heads = 3,
                .sequence = 7,
                .dropout = 0.1,
                .moe = moe};
  deck.train->batch = 5;
  return deck;
}

}  // namespace hidup
