// The file config.json of transformers, beside a model's tensors.
#pragma once

#include <cstdint>
#include <string>

#include "deck/deck.h"
#include "interchange/name_map.h"

namespace hidup {

// Checks that config.json in the folder agrees with the deck, whose vocabulary has `vocab` tokens.
// Does nothing where the folder has no such file. Throws Error(usage) with every value that
// differs; Error(file) where the file cannot be read.
void check_config(const std::string& folder, const NameMap& names, const Deck& deck, int64_t vocab);

// Returns the text of config.json for a model of the deck; empty where these names have none.
std::string config_text(const NameMap& names, const Deck& deck, int64_t vocab);

}  // namespace hidup
