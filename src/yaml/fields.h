// The keys of a YAML map, against those that are known.
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

// All known keys; a null node stands for one that is missing. Adds to `problems` (places in their
// first source): a missing key that is not optional, an unknown one with the nearest known one, one
// that is given twice.
YamlFields fields_of(const YamlNode& map, std::initializer_list<const char*> known,
                     std::initializer_list<const char*> optional, Problems& problems);

// The tree of a text that must be a map. Throws the problems of one that is malformed or not a
// map; `what`: "a strategy: a map that begins with format_version".
YamlNode parse_yaml_map(const std::string& text, const std::string& what, Problems& problems);

// A finite number, or a whole one, that is not negative: 0 where it is not, which is a problem.
double number_of(const YamlNode& node, std::string_view key, Problems& problems);
int64_t whole_of(const YamlNode& node, std::string_view key, Problems& problems);

}  // namespace hidup
