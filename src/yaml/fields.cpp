#include "yaml/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text.h"

namespace hidup {
namespace {

// Reads a number. Returns true if it is all of the text.
template <typename Number>
bool parse_number(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && stop == end;
}

}  // namespace

YamlFields fields_of(const YamlNode& map, std::initializer_list<const char*> known,
                     std::initializer_list<const char*> optional, Problems& problems) {
  const auto report = [&](const YamlNode& node, const std::string& message) {
    problems.add({0, node.line, node.column}, message);
  };
  YamlFields fields;
  std::vector<std::string> names(known.begin(), known.end());
  names.insert(names.end(), optional.begin(), optional.end());
  for (size_t i = 0; map.kind == YamlNode::Kind::map && i < map.keys.size(); ++i) {
    const YamlNode& key = map.keys[i];
    if (std::ranges::find(names, key.text) == names.end()) {
      const std::string hint = nearest(key.text, names);
      report(key, fmt::format("unknown key {}{}", shown(key.text),
                              hint.empty() ? fmt::format("; known: {}", fmt::join(names, ", "))
                                           : fmt::format(": did you mean {}?", hint)));
    } else if (!fields.emplace(key.text, map.values[i]).second) {
      report(key, fmt::format("{} is given twice", key.text));
    }
  }
  for (const std::string name : known) {
    if (!fields.contains(name)) {
      report(map, fmt::format("{} is missing", name));
    }
  }
  for (const std::string& name : names) {
    fields.try_emplace(name);
  }
  return fields;
}

YamlNode parse_yaml_map(const std::string& text, const std::string& what, Problems& problems) {
  std::vector<YamlProblem> malformed;
  YamlNode root = parse_yaml(text, malformed);
  for (const YamlProblem& problem : malformed) {
    problems.add({0, problem.line, problem.column}, problem.message);
  }
  if (problems.empty() && root.kind != YamlNode::Kind::map) {
    problems.add({0, root.line, root.column}, fmt::format("expected {}", what));
  }
  problems.throw_if_any();
  return root;
}

double number_of(const YamlNode& node, std::string_view key, Problems& problems) {
  double value = 0.0;
  if (!parse_number(node.text, value) || !std::isfinite(value) || value < 0.0) {
    problems.add({0, node.line, node.column},
                 fmt::format("{}: expected a number, at least 0", key));
    return 0.0;
  }
  return value;
}

int64_t whole_of(const YamlNode& node, std::string_view key, Problems& problems) {
  int64_t value = 0;
  if (!parse_number(node.text, value) || value < 0) {
    problems.add({0, node.line, node.column},
                 fmt::format("{}: expected a whole number, at least 0", key));
    return 0;
  }
  return value;
}

}  // namespace hidup
