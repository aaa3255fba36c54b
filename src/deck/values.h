// Single values of the decks: from YAML text to a member and back.
#pragma once

#include <string>

#include "deck/keys.h"
#include "yaml/yaml_tree.h"

namespace hidup {

bool in_range(double value, const Range& range);

// What the key may be, for messages and the reference: "an integer from 1 to 64".
std::string allowed_values(const Key& key);

// What stands in the deck, for messages.
std::string describe(const YamlNode& node);

// Whether it is written as a number. Words in quotes are none.
bool is_number(const YamlNode& node);

// The number before " x ranks", as a node of its own; the node itself where the key takes no such
// values or this is none.
YamlNode without_ranks(const Key& key, const YamlNode& node);

// Reads one scalar into the slot (which is not a list). Throws Error(usage) with what
// was expected and what was found.
void read_scalar(const Key& key, const YamlNode& node, const Slot& slot);

// The slot's value (not a list of maps) as YAML that read_scalar() takes: on one line,
// and the same value again.
std::string format_value(const Key& key, const Slot& slot);

}  // namespace hidup
