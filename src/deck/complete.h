// The last step of reading decks, which needs all keys: values per rank, derived values, missing
// and misplaced keys, and relations between keys.
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

// Keys with values per rank, and their texts ("2 x ranks"). The Deck holds the value of one rank.
using PerRank = std::map<std::string, std::string>;

// Completes decks whose keys are read, and adds their problems. `ranks` is the number of ranks
// where it is known; otherwise that of the mesh counts.
void complete_decks(Deck& deck, const PerRank& per_rank, std::optional<int64_t> ranks,
                    KeyPlaces& places, Problems& problems);

// Returns the message for a missing key.
std::string missing_key(const Key& key, const std::string& name);

}  // namespace hidup
