#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "core/check.h"
#include "core/file.h"
#include "core/limits.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/complete.h"
#include "deck/data_deck.h"
#include "deck/deck.h"
#include "deck/key_names.h"
#include "deck/keys.h"
#include "deck/places.h"
#include "deck/values.h"
#include "yaml/problems.h"
#include "yaml/yaml_tree.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

// The limit of lists of maps that have no other limit.
constexpr size_t kMaxListItems = 4096;

// Reads one source after the other, and collects their problems.
class DeckReader {
 public:
  explicit DeckReader(std::optional<int64_t> ranks) : ranks_(ranks) {
    source_ = problems_.add_source("defaults");
    for (const Key& key : keys()) {
      if (!is_of_item(key.name)) {
        read_default(key, key.name, {});
      }
    }
    check(problems_.empty(), "a default of the decks is not a legal value of its key");
    places_.take_all_back();
  }

  void read_deck(const DeckSource& source, DeckFile file) {
    source_ = problems_.add_source(source.name);
    folder_ = source.folder;
    places_.start_deck(file, {source_, 1, 1});
    const YamlNode root = parse(source.text);
    if (root.kind == YamlNode::Kind::refused) {
      refuse_sections(file);
    } else if (root.kind == YamlNode::Kind::map) {
      read_map(root, "", {}, file);
    } else {
      const std::vector<std::string> names = section_names(file);
      report(position_of(root),
             fmt::format("expected the section{} {} of a {}, found {}", names.size() > 1 ? "s" : "",
                         fmt::join(names, ", "), describe(file), describe(root)));
      refuse_sections(file);
    }
  }

  void read_override(const std::string& assignment) {
    source_ = problems_.add_source("--set " + assignment);
    folder_ = working_folder();
    is_override_ = true;
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      return report(here(), "expected section.key=value");
    }
    AxisKey at{assignment.substr(0, equals)};
    const std::string& name = at.name;
    if (is_axis_key(name)) {
      if (places_.is_refused("cluster.mesh")) {
        return;  // the axes are not known
      }
      try {
        at = find_axis_key(name, deck_.cluster->mesh);
      } catch (const Error& error) {
        return report(here(), error.what());
      }
    } else if (find_key(name) == nullptr || name.find('[') != std::string::npos) {
      return report(here(), explain_unknown(name));
    }
    places_.start_override(file_of(section_of(name)).value(), here());
    const YamlNode value = parse(assignment.substr(equals + 1));
    if (value.kind != YamlNode::Kind::refused) {
      read_value(*find_key(record_name(name)), name, value, {.outer = at.item}, here());
    } else {
      places_.refuse(name);
    }
  }

  Deck finish() {
    complete_decks(deck_, per_rank_, ranks_, places_, problems_);
    problems_.throw_if_any();
    deck_.places = places_.describe(problems_);
    return deck_;
  }

 private:
  // Returns the place of a node. A node in an override has the override's place.
  Position position_of(const YamlNode& node) const {
    return is_override_ ? here() : Position{source_, node.line, node.column};
  }
  Position here() const { return {source_, 0, 0}; }

  void report(const Position& position, const std::string& message) {
    problems_.add(position, message);
  }

  // Reports the problem of a key, whose value cannot be judged any more.
  void refuse(const std::string& name, const Position& position, const std::string& message) {
    places_.refuse(name);
    report(position, message);
  }

  YamlNode parse(const std::string& text) {
    std::vector<YamlProblem> found;
    YamlNode root = parse_yaml(text, found);
    for (const YamlProblem& problem : found) {
      YamlNode place;
      place.line = problem.line;
      place.column = problem.column;
      report(position_of(place), problem.message);
    }
    return root;
  }

  static std::vector<std::string> section_names(DeckFile file) {
    std::vector<std::string> names;
    for (const Section& section : sections()) {
      if (section.file == file) {
        names.push_back(section.name);
      }
    }
    return names;
  }

  void refuse_sections(DeckFile file) {
    for (const std::string& section : section_names(file)) {
      places_.refuse(section);
    }
  }

  // Reads the keys under `group` ("" for the sections, which must be those of `file`).
  void read_map(const YamlNode& map, const std::string& group, Item item,
                std::optional<DeckFile> file = std::nullopt) {
    std::map<std::string, int> lines;  // the first line of each key
    for (size_t i = 0; i < map.keys.size(); ++i) {
      const YamlNode& word = map.keys[i];
      const Position position = position_of(word);
      if (word.kind != YamlNode::Kind::scalar) {
        if (word.kind != YamlNode::Kind::refused) {
          report(position, fmt::format("expected a key, found {}", describe(word)));
        }
        continue;
      }
      const std::string name = (group.empty() ? "" : group + ".").append(shown(word.text));
      const auto [first, is_new] = lines.emplace(word.text, word.line);
      if (!is_new) {
        refuse(name, position,
               is_override_
                   ? fmt::format("{} is given twice", name)
                   : fmt::format("{} is given twice, first in line {}", name, first->second));
      } else if (file && file_of(name) && file_of(name) != file) {
        report(position, fmt::format("section {} belongs in the {}, not in the {}", name,
                                     describe(*file_of(name)), describe(*file)));
      } else {
        read_entry(name, word, map.values[i], item);
      }
    }
  }

  void read_entry(const std::string& name, const YamlNode& word, const YamlNode& value, Item item) {
    const bool empty = value.kind == YamlNode::Kind::null;
    const Position position = position_of(empty ? word : value);
    const std::string record = record_name(name);
    if (word.text.find_first_of(".[]") != std::string::npos) {
      report(position_of(word), fmt::format("unknown key {}: in a deck keys are nested, not joined "
                                            "by dots",
                                            name));
    } else if (const Key* key = find_key(record)) {
      read_value(*key, name, value, item, position);
    } else if (!is_group(record)) {
      report_unknown_key(name, position_of(word));
    } else if (value.kind == YamlNode::Kind::map) {
      places_.give(name, position_of(word));
      read_map(value, name, item);
    } else if (value.kind != YamlNode::Kind::refused) {
      refuse(name, position,
             fmt::format("{}: expected keys with values, found {}", name, describe(value)));
    }
  }

  // Reads the value of a key. `name` is the key's name with the index of the item.
  void read_value(const Key& key, const std::string& name, const YamlNode& value, Item item,
                  const Position& position) {
    places_.forget(name);
    places_.give(name, position);
    const Slot slot = key.slot(deck_, item);
    if (value.kind == YamlNode::Kind::refused) {
      places_.refuse(name);
    } else if (auto* const* validation = std::get_if<ValidationData*>(&slot)) {
      read_validation(key, name, value, **validation, position);
    } else if (!key.path_of.empty()) {
      read_path(key, name, value, *std::get<std::string*>(slot), position);
    } else if (auto* const* patterns = std::get_if<std::optional<Patterns>*>(&slot)) {
      read_patterns(key, name, value, **patterns, position);
    } else if (auto* const* paths = std::get_if<std::vector<std::string>*>(&slot)) {
      read_paths(key, name, value, **paths);
    } else if (auto* const* axes = std::get_if<std::vector<MeshAxis>*>(&slot)) {
      const auto at = [](size_t i) { return Item{.outer = i}; };
      read_items(key, name, value, **axes, {"axes", kMaxAxes, at}, position);
    } else if (auto* const* devices = std::get_if<std::vector<DeviceClass>*>(&slot)) {
      const auto at = [](size_t i) { return Item{.outer = i}; };
      read_items(key, name, value, **devices, {"devices", kMaxListItems, at}, position);
    } else if (auto* const* shares = std::get_if<std::vector<ProductEfficiency>*>(&slot)) {
      const auto at = [](size_t i) { return Item{.outer = i}; };
      read_items(key, name, value, **shares, {"shares", kMaxListItems, at}, position);
    } else if (auto* const* phases = std::get_if<std::vector<TracePhase>*>(&slot)) {
      const auto at = [item](size_t i) { return Item{.outer = item.outer, .inner = i}; };
      read_items(key, name, value, **phases, {"periods", kMaxListItems, at}, position);
    } else {
      read_scalar_at(key, name, value, slot, position);
    }
  }

  void read_scalar_at(const Key& key, const std::string& name, const YamlNode& value,
                      const Slot& slot, const Position& position) {
    const YamlNode number = without_ranks(key, value);
    per_rank_.erase(name);
    if (number.text != value.text) {
      per_rank_[name] = value.text;
    }
    try {
      read_scalar(key, number, slot);
    } catch (const Error& error) {
      refuse(name, position, fmt::format("{}: {}", name, error.what()));
    }
  }

  // Reads a path. A word in quotes is one even if it is one of the key's choices.
  void read_path(const Key& key, const std::string& name, const YamlNode& value, std::string& path,
                 const Position& position) {
    path.clear();
    if (value.kind == YamlNode::Kind::scalar && !value.quoted &&
        std::ranges::find(key.choices, value.text) != key.choices.end()) {
      path = value.text == key.choices.back() ? "" : value.text;
      return;
    }
    read_scalar_at(key, name, value, &path, position);
    path = (fs::path(folder_) / path).lexically_normal();
  }

  // Reads patterns. A word in quotes is one even if it is "auto".
  void read_patterns(const Key& key, const std::string& name, const YamlNode& value,
                     std::optional<Patterns>& patterns, const Position& position) {
    patterns.reset();
    if (value.kind == YamlNode::Kind::scalar && !value.quoted && value.text == key.fallback) {
      return;
    }
    patterns.emplace();
    const std::vector<YamlNode> single = {value};
    for (const YamlNode& item : value.kind == YamlNode::Kind::list ? value.values : single) {
      read_scalar_at(key, name, item, &patterns->emplace_back(),
                     item.kind == YamlNode::Kind::null ? position : position_of(item));
    }
  }

  void read_paths(const Key& key, const std::string& name, const YamlNode& value,
                  std::vector<std::string>& paths) {
    paths.clear();
    const std::vector<YamlNode> single = {value};
    for (const YamlNode& item : value.kind == YamlNode::Kind::list ? value.values : single) {
      std::string path;
      read_scalar_at(key, name, item, &path,
                     item.kind == YamlNode::Kind::null ? places_.where(name) : position_of(item));
      paths.push_back((fs::path(folder_) / path).lexically_normal());
    }
  }

  // Reads validation data. A word in quotes is a path even if it is "none" or a number.
  void read_validation(const Key& key, const std::string& name, const YamlNode& value,
                       ValidationData& validation, const Position& position) {
    validation = {};
    if (is_number(value)) {
      read_scalar_at(key, name, value, &validation.fraction, position);
    } else if (value.kind != YamlNode::Kind::scalar || value.quoted || value.text != "none") {
      read_paths(key, name, value, validation.path);
    }
  }

  // A kind of list of maps: the name of its items, their limit, and the Item of an index.
  struct ListKind {
    std::string_view items;
    size_t most;
    std::function<Item(size_t index)> at;
  };

  template <typename Element>
  void read_items(const Key& key, const std::string& name, const YamlNode& value,
                  std::vector<Element>& items, const ListKind& kind, const Position& position) {
    items.clear();
    if (value.kind != YamlNode::Kind::list) {
      return refuse(
          name, position,
          fmt::format("{}: expected {}, found {}", name, allowed_values(key), describe(value)));
    }
    if (value.values.size() > kind.most) {
      return refuse(name, position,
                    fmt::format("{}: expected at most {} {}, found {}", name, kind.most, kind.items,
                                value.values.size()));
    }
    items.resize(value.values.size());
    for (size_t i = 0; i < items.size(); ++i) {
      read_item(fmt::format("{}[{}]", name, i), value.values[i], kind.at(i));
    }
  }

  void read_item(const std::string& name, const YamlNode& node, Item item) {
    const std::string record = record_name(name);
    for (const Key& key : keys()) {
      if (parent_of(key.name) == record) {
        read_default(key, fmt::format("{}.{}", name, last_part(key.name)), item);
      }
    }
    places_.give(name, position_of(node));
    if (node.kind == YamlNode::Kind::map) {
      read_map(node, name, item);
      report_missing_in_item(name);
    } else if (node.kind != YamlNode::Kind::refused) {
      refuse(name, position_of(node),
             fmt::format("{}: expected the keys {}, found {}", name,
                         fmt::join(children_of(record), ", "), describe(node)));
    } else {
      places_.refuse(name);
    }
  }

  void read_default(const Key& key, const std::string& name, Item item) {
    if (key.fallback.empty() || key.derived != nullptr) {
      return;
    }
    std::vector<YamlProblem> malformed;
    const YamlNode value = parse_yaml(key.fallback, malformed);
    read_value(key, name, value, item, here());
    places_.take_back(name);
  }

  void report_unknown_key(const std::string& name, const Position& position) {
    if (last_part(name) == "<<") {
      return report(position, "merge keys (<<) are not supported: write the keys out");
    }
    const std::string group(parent_of(name));
    const std::string meant = similar_name(name);
    if (!meant.empty() && !places_.is_given(meant)) {
      places_.refuse(meant);  // a misspelt key is not missing as well
    }
    const std::string hint =
        meant.empty() ? fmt::format("the {} here are {}", group.empty() ? "sections" : "keys",
                                    fmt::join(children_of(record_name(group)), ", "))
                      : fmt::format("did you mean {}?", meant);
    report(position,
           fmt::format("unknown {} {}: {}", group.empty() ? "section" : "key", name, hint));
  }

  void report_missing_in_item(const std::string& item) {
    const std::string record = record_name(item);
    for (const Key& key : keys()) {
      const std::string name = item + "." + std::string(last_part(key.name));
      if (parent_of(key.name) == record && key.fallback.empty() && !places_.is_given(name) &&
          !places_.is_refused(name)) {
        report(places_.where(name), missing_key(key, name));
      }
    }
  }

  Deck deck_;
  std::optional<int64_t> ranks_;
  PerRank per_rank_;
  Problems problems_;
  size_t source_ = 0;  // the source being read
  fs::path folder_;    // folder of the source being read
  bool is_override_ = false;
  KeyPlaces places_;
};

}  // namespace

Deck parse_decks(const DeckSource* model, const DeckSource* cluster,
                 std::span<const std::string> overrides, std::optional<int64_t> ranks) {
  DeckReader reader(ranks);
  if (model != nullptr) {
    reader.read_deck(*model, DeckFile::model);
  }
  if (cluster != nullptr) {
    reader.read_deck(*cluster, DeckFile::cluster);
  }
  for (const std::string& assignment : overrides) {
    reader.read_override(assignment);
  }
  return reader.finish();
}

Deck parse_resolved(const std::string& name, const std::string& text) {
  const size_t end = text.find("\ncluster:");
  const size_t cluster = end == std::string::npos ? text.size() : end + 1;
  const DeckSource sources[] = {{.name = name, .text = text.substr(0, cluster)},
                                {.name = name, .text = text.substr(cluster)}};
  try {
    return parse_decks(&sources[0], cluster < text.size() ? &sources[1] : nullptr, {});
  } catch (const Error& error) {
    fail(ExitCode::file, "{}", error.what());
  }
}

}  // namespace hidup
