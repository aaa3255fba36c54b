#include <algorithm>
#include <map>
#include <set>

#include "deck/deck.h"
#include "yaml/yaml_tree.h"

namespace hidup {
namespace {

using Values = std::map<std::string, std::string>;

std::string text_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::list) {
    return node.text;
  }
  std::string text;
  for (const YamlNode& item : node.values) {
    text += (text.empty() ? "" : ", ") + text_of(item);
  }
  return "[" + text + "]";
}

void flatten(const YamlNode& node, const std::string& name, Values& values) {
  if (node.kind != YamlNode::Kind::map) {
    values[name] = text_of(node);
    return;
  }
  for (size_t i = 0; i < node.keys.size(); ++i) {
    flatten(node.values[i], (name.empty() ? "" : name + ".") + node.keys[i].text, values);
  }
}

Values values_of(const std::string& resolved) {
  std::vector<YamlProblem> problems;
  Values values;
  flatten(parse_yaml(resolved, problems), "", values);
  return values;
}

}  // namespace

std::vector<ChangedKey> changed_keys(const std::string& before, const std::string& now) {
  const Values old_values = values_of(before);
  const Values new_values = values_of(now);
  std::set<std::string> names;
  for (const Values* values : {&old_values, &new_values}) {
    for (const auto& [name, value] : *values) {
      names.insert(name);
    }
  }
  std::vector<ChangedKey> changed;
  for (const std::string& name : names) {
    const auto value = [&](const Values& values) {
      const auto found = values.find(name);
      return found == values.end() ? "none" : found->second;
    };
    if (value(old_values) != value(new_values)) {
      changed.push_back({name, value(old_values), value(new_values)});
    }
  }
  return changed;
}

}  // namespace hidup
