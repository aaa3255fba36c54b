// Checks that relate several keys, with the arithmetic spelled out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "deck/deck.h"

namespace hidup {

struct DeckChecks {
  // The value of the key is there to be judged: its deck was given, and nothing is
  // wrong with the key itself.
  std::function<bool(std::string_view name)> usable;
  // Adds a problem at the place of the key's value.
  std::function<void(std::string_view name, const std::string& message)> report;
};

// Whether all of these keys can be judged.
template <typename... Names>
bool usable(const DeckChecks& checks, Names... names) {
  return (checks.usable(names) && ...);
}

void check_relations(const Deck& deck, const DeckChecks& checks);
// The part of it about the cluster's keys.
void check_cluster(const ClusterDeck& cluster, const DeckChecks& checks);

}  // namespace hidup
