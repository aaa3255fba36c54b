// Checks that relate several keys, with the arithmetic spelled out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "deck/deck.h"

namespace hidup {

struct DeckChecks {
  // Returns true if the key's value can be judged: its deck is given, and the key has no problem.
  std::function<bool(std::string_view name)> usable;
  // Adds a problem at the place of the key's value.
  std::function<void(std::string_view name, const std::string& message)> report;
};

// Returns true if all of these keys can be judged.
template <typename... Names>
bool usable(const DeckChecks& checks, Names... names) {
  return (checks.usable(names) && ...);
}

void check_relations(const Deck& deck, const DeckChecks& checks);
// Checks the keys of the cluster only, for check_relations().
void check_cluster(const ClusterDeck& cluster, const DeckChecks& checks);

}  // namespace hidup
