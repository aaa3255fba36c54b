// Checks of the keys of a YAML map against the known keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "yaml/problems.h"
#include "yaml/yaml_tree.h"

namespace hidup {

using YamlFields = std::map<std::string, YamlNode>;

// Returns all known keys; a null node stands for a missing one. Adds problems (places in their
// first source): a missing key that is not optional, an unknown one with the nearest known one, a
// repeated one.
YamlFields fields_of(const YamlNode& map, std::initializer_list<const char*> known,
                     std::initializer_list<const char*> optional, Problems& problems);

// Returns the tree of a text that must be a map. Throws the problems of a text that is malformed or
// not a map. `what` describes the map: "a strategy: a map that begins with format_version".
YamlNode parse_yaml_map(const std::string& text, const std::string& what, Problems& problems);

// Return a finite or a whole number, at least 0. Add a problem and return 0 where the node has
// none.
double number_of(const YamlNode& node, std::string_view key, Problems& problems);
int64_t whole_of(const YamlNode& node, std::string_view key, Problems& problems);

}  // namespace hidup
