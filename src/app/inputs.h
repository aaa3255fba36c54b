// What a run is given, the same on all ranks.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "deck/deck.h"

namespace hidup {

struct Decks {
  DeckSource model;
  DeckSource cluster;
  std::string graph;  // text of model.graph; empty where a family is built
  Deck deck;
};
// Rank 0 reads the files, all ranks parse the same text. Either path may be empty: parse_decks()
// says what that means.
Decks load_decks(const std::string& model, const std::string& cluster,
                 const std::vector<std::string>& overrides, Communicator& world);

}  // namespace hidup
