// What needs all keys of the decks: values per rank, derived values, what is missing or has no
// place in these decks, and relations between keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "deck/deck.h"
#include "deck/keys.h"
#include "deck/places.h"
#include "yaml/problems.h"

namespace hidup {

// Keys whose values are given per rank, and what the deck says ("2 x ranks"). In the deck stands
// what one rank has.
using PerRank = std::map<std::string, std::string>;

// Completes decks whose keys are read; adds what is wrong to the problems. ranks: their number
// where it is known, else what the mesh says counts.
void complete_decks(Deck& deck, const PerRank& per_rank, std::optional<int64_t> ranks,
                    KeyPlaces& places, Problems& problems);

// The message for a key that has to be given.
std::string missing_key(const Key& key, const std::string& name);

}  // namespace hidup
