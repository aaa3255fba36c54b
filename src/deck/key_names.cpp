#include "deck/key_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/keys.h"

namespace hidup {
namespace {

constexpr std::string_view kMesh = "cluster.mesh.";

}  // namespace

std::string record_name(std::string_view name) {
  std::string record;
  bool in_index = false;
  for (const char c : name) {
    in_index = in_index && c != ']';
    if (!in_index) {
      record += c;
    }
    in_index = in_index || c == '[';
  }
  return record;
}

std::string_view parent_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

bool belongs_to(std::string_view name, std::string_view owner) {
  return name.starts_with(owner) &&
         (name.size() == owner.size() || name[owner.size()] == '.' || name[owner.size()] == '[');
}

bool is_of_item(std::string_view record) {
  return record.find("[]") != std::string_view::npos;
}

bool is_group(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  const auto all = keys();
  return std::any_of(all.begin(), all.end(),
                     [&](const Key& key) { return key.name.starts_with(prefix); });
}

std::vector<std::string> children_of(std::string_view group) {
  const std::string prefix = group.empty() ? "" : std::string(group) + ".";
  std::vector<std::string> children;
  for (const Key& key : keys()) {
    if (!key.name.starts_with(prefix)) {
      continue;
    }
    const std::string_view rest = std::string_view(key.name).substr(prefix.size());
    const std::string child(rest.substr(0, rest.find_first_of(".[")));
    if (children.empty() || children.back() != child) {
      children.push_back(child);
    }
  }
  return children;
}

std::string similar_name(std::string_view name) {
  const std::string_view last = last_part(name);
  std::vector<std::string> all;
  for (const Key& key : keys()) {
    if (last_part(key.name) == last) {  // the right word in the wrong place
      return key.name;
    }
    all.push_back(key.name);
  }
  const std::string group(parent_of(name));
  if (!group.empty() && !is_group(record_name(group))) {
    return nearest(name, all);
  }
  const std::string close = nearest(last, children_of(record_name(group)));
  return close.empty() || group.empty() ? close : fmt::format("{}.{}", group, close);
}

std::string explain_unknown(std::string_view name) {
  if (is_group(name)) {
    return fmt::format("{} is not a key but a group of them: {}", name,
                       fmt::join(children_of(name), ", "));
  }
  for (const Key& key : keys()) {
    if (key.name != name && belongs_to(name, key.name) && is_group(key.name + "[]")) {
      // Only axes have names.
      return key.name + "." == kMesh
                 ? fmt::format(
                       "{} is a list: set all of it, as in {}={}, or a key of one of its "
                       "items, as in {}.ranks.size=4",
                       key.name, key.name, key.fallback, key.name)
                 : fmt::format("{} is a list: set all of it, as a list of {{{}}}", key.name,
                               fmt::join(children_of(key.name + "[]"), ", "));
    }
  }
  const std::string meant = similar_name(name);
  return fmt::format("unknown key {}{}", shown(name),
                     meant.empty() ? "" : fmt::format(": did you mean {}?", meant));
}

namespace {

// Returns ": did you mean gpu? There are node, gpu".
std::string meant_of(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = nearest(word, known);
  return fmt::format(": {} {}",
                     meant.empty() ? "there are" : "did you mean " + meant + "? There are",
                     fmt::join(known, ", "));
}

}  // namespace

bool is_axis_key(std::string_view name) {
  return name.starts_with(kMesh);
}

AxisKey find_axis_key(std::string_view name, const std::vector<MeshAxis>& axes) {
  const std::string_view rest = name.substr(kMesh.size());
  const size_t dot = std::min(rest.find('.'), rest.size());
  const std::string axis(rest.substr(0, dot));
  const std::string key(rest.substr(std::min(dot + 1, rest.size())));
  std::vector<std::string> names;
  std::ranges::transform(axes, std::back_inserter(names), &MeshAxis::name);
  const auto found = std::ranges::find(names, axis);
  if (found == names.end()) {
    fail(ExitCode::usage, "{}: cluster.mesh has no axis {}{}", shown(name), shown(axis),
         meant_of(axis, names));
  }
  const std::vector<std::string> known = children_of("cluster.mesh[]");
  if (key.empty()) {
    fail(ExitCode::usage, "{} is an axis: set one of its keys {}", shown(name),
         fmt::join(known, ", "));
  }
  if (std::ranges::find(known, key) == known.end()) {
    fail(ExitCode::usage, "{}: an axis has no key {}{}", shown(name), shown(key),
         meant_of(key, known));
  }
  const auto item = static_cast<size_t>(found - names.begin());
  return {fmt::format("cluster.mesh[{}].{}", item, key), item};
}

}  // namespace hidup
