// config.json of transformers, beside a model's tensors.
#pragma once

#include <cstdint>
#include <string>

#include "deck/deck.h"
#include "interchange/name_map.h"

namespace hidup {

// What is asked of the deck and what config.json says, of one folder. Nothing where it has no such
// file. Throws Error(usage) that names every value that differs from the deck's, whose vocabulary
// has `vocab` tokens; Error(file) where the file cannot be read.
void check_config(const std::string& folder, const NameMap& names, const Deck& deck, int64_t vocab);

// The text of config.json for a model of the deck; empty: these names have none.
std::string config_text(const NameMap& names, const Deck& deck, int64_t vocab);

}  // namespace hidup
