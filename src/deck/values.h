// Single values of the decks: reading from YAML text into a member, and writing.
#pragma once

#include <string>

#include "deck/keys.h"
#include "yaml/yaml_tree.h"

namespace hidup {

bool in_range(double value, const Range& range);

// Describes the values of a key for messages and the reference: "an integer from 1 to 64".
std::string allowed_values(const Key& key);

// Describes a value of the deck for messages.
std::string describe(const YamlNode& node);

// Returns true if the node is written as a number. Words in quotes are none.
bool is_number(const YamlNode& node);

// Returns the number before " x ranks" as a node of its own; the node itself where the key takes no
// such values or the text is none.
YamlNode without_ranks(const Key& key, const YamlNode& node);

// Reads one scalar into the slot (no list). Throws Error(usage) with the expected and found value.
void read_scalar(const Key& key, const YamlNode& node, const Slot& slot);

// Returns the slot's value (not a list of maps) as YAML on one line that reads as the same value.
std::string format_value(const Key& key, const Slot& slot);

}  // namespace hidup
