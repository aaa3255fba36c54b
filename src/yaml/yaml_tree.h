// A plain tree of YAML text that knows the position of every node. It is built from yaml-cpp's
// events, because yaml-cpp's own tree keeps duplicate keys silently, forgets anchors and quotes,
// and does not tell the position of a key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hidup {

struct YamlNode {
  enum class Kind { null, scalar, list, map, refused };
  Kind kind = Kind::null;
  int line = 1;  // line and column count from 1
  int column = 1;
  std::string text;              // text of a scalar
  bool quoted = false;           // true for a scalar in quotes or a block scalar
  std::vector<YamlNode> keys;    // keys of a map, in the order of the text
  std::vector<YamlNode> values;  // values of a map, items of a list
};

struct YamlProblem {
  int line;
  int column;
  std::string message;
};

// Returns the one document of `text`; null where there is none. Adds malformed and unsupported
// content (anchors, aliases, tags, further documents) to `problems`. The kind refused marks
// reported content: an alias, or a whole text that is malformed or goes on after its document.
YamlNode parse_yaml(const std::string& text, std::vector<YamlProblem>& problems);

// Returns the text as a scalar in double quotes, on one line.
std::string yaml_quoted(std::string_view text);

// Returns the text itself where YAML reads it as the same text anywhere, else quoted.
std::string yaml_word(std::string_view text);

}  // namespace hidup
