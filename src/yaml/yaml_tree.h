// YAML text as a plain tree that knows where everything stands.
//
// yaml-cpp's own tree keeps duplicate keys silently, forgets anchors and quotes,
// and does not tell where a key stands; this one is built from its events.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hidup {

struct YamlNode {
  enum class Kind { null, scalar, list, map, refused };
  Kind kind = Kind::null;
  int line = 1;  // both from 1
  int column = 1;
  std::string text;              // of a scalar
  bool quoted = false;           // a scalar in quotes, or a block scalar
  std::vector<YamlNode> keys;    // of a map, in the order of the text
  std::vector<YamlNode> values;  // of a map or a list
};

struct YamlProblem {
  int line;
  int column;
  std::string message;
};

// The one document of `text`; null where there is none. What is malformed or not
// supported (anchors, aliases, tags, further documents) is added to `problems`. Kind
// refused marks what is reported there already: an alias, or the whole of a text that
// is malformed or goes on after its document.
YamlNode parse_yaml(const std::string& text, std::vector<YamlProblem>& problems);

// The text as a scalar in double quotes, on one line.
std::string yaml_quoted(std::string_view text);

// The text as it stands where YAML reads that as the same text wherever it stands, else quoted.
std::string yaml_word(std::string_view text);

}  // namespace hidup
