#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "deck/cluster_deck.h"
#include "deck/deck.h"
#include "deck/key_names.h"
#include "deck/keys.h"
#include "deck/model_deck.h"
#include "deck/values.h"

namespace hidup {
namespace {

std::string line(size_t depth, std::string_view text) {
  return fmt::format("{:{}}{}\n", "", 2 * depth, text);
}

size_t depth_of(std::string_view name) {
  return static_cast<size_t>(std::count(name.begin(), name.end(), '.'));
}

// Returns the number of maps in the slot; nothing where the slot holds no list of maps.
std::optional<size_t> items_in(const Slot& slot) {
  if (auto* const* axes = std::get_if<std::vector<MeshAxis>*>(&slot)) {
    return (*axes)->size();
  }
  if (auto* const* devices = std::get_if<std::vector<DeviceClass>*>(&slot)) {
    return (*devices)->size();
  }
  if (auto* const* shares = std::get_if<std::vector<ProductEfficiency>*>(&slot)) {
    return (*shares)->size();
  }
  if (auto* const* phases = std::get_if<std::vector<TracePhase>*>(&slot)) {
    return (*phases)->size();
  }
  return std::nullopt;
}

std::vector<const Key*> keys_of_items(const Key& list) {
  std::vector<const Key*> found;
  for (const Key& key : keys()) {
    if (parent_of(key.name) == list.name + "[]") {
      found.push_back(&key);
    }
  }
  return found;
}

// Writes a list within an item on one line: "[{for: 10ms, bandwidth: 1GB/s}]".
std::string inner_list_yaml(Deck& deck, const Key& list, Item item, size_t count) {
  std::vector<std::string> maps;
  for (item.inner = 0; item.inner < count; ++item.inner) {
    std::vector<std::string> values;
    for (const Key* key : keys_of_items(list)) {
      values.push_back(
          fmt::format("{}: {}", last_part(key->name), format_value(*key, key->slot(deck, item))));
    }
    maps.push_back(fmt::format("{{{}}}", fmt::join(values, ", ")));
  }
  return fmt::format("[{}]", fmt::join(maps, ", "));
}

// Writes a list of maps, a key on each line.
std::string list_yaml(Deck& deck, const Key& list, size_t count) {
  const size_t depth = depth_of(list.name);
  if (count == 0) {
    return line(depth, fmt::format("{}: []", last_part(list.name)));
  }
  std::string text = line(depth, fmt::format("{}:", last_part(list.name)));
  for (size_t i = 0; i < count; ++i) {
    std::string_view bullet = "- ";
    for (const Key* key : keys_of_items(list)) {
      const Item item{.outer = i};
      const Slot slot = key->slot(deck, item);
      const std::optional<size_t> inner = items_in(slot);
      text += line(depth + 1, fmt::format("{}{}: {}", bullet, last_part(key->name),
                                          inner ? inner_list_yaml(deck, *key, item, *inner)
                                                : format_value(*key, slot)));
      bullet = "  ";
    }
  }
  return text;
}

constexpr std::string_view kIntroduction = R"(# How to write a deck

<!-- Written by `hidup validate --keys`. Change the keys in src/deck/*keys.cpp, not here. -->

A run reads two decks, both YAML. The model deck says what is trained, on which data and how; the
cluster deck says with what machine:

    mpirun -n 2 hidup train inputs/models/tiny.yaml --cluster inputs/clusters/laptop.yaml

A model deck needs no more than this:

    model:
      layers: 2
      hidden: 128
      heads: 4
      sequence: 64
    data:
      path: my-text.txt
    train:
      batch: 16
      steps: 300

- Quantities carry their unit: `32GiB`, `9.71Gbps`, `30us`.
- `2 x ranks` is a number that grows with the ranks, where the tables below allow it. The ranks are
  those that mpirun starts, of `--ranks`, or of a mesh whose sizes are all given.
- `auto` lets the program choose, where the tables below allow it.
- `--set section.key=value` overrides a key of either deck; the value is YAML, and the last one of
  a key holds. A list is set as a whole: `--set 'cluster.mesh=[{name: ranks, size: 4}]'`; a key of
  one axis of the mesh by the axis's name: `--set cluster.mesh.ranks.bandwidth=10Gbps`.
- Relative paths start in the folder of the deck, in `--set` in the working directory.
- What is unknown, misspelt, given twice, out of range or contradictory is an error with file, line
  and column, and the program ends with exit code 2. `hidup validate` does only this check.
- Anchors, aliases, tags and a second document in a file are not supported. Nothing is converted
  silently: `1e3` is not an integer, `yes` is no truth value.

Every key has one row below. A key without a default is required, unless `model.graph` gives it.
)";

std::string row(const Key& key) {
  std::string fallback = key.fallback.empty() ? "required" : fmt::format("`{}`", key.fallback);
  return fmt::format("| `{}` | {} | {} | {} |\n", key.name, fallback, allowed_values(key), key.doc);
}

}  // namespace

std::string resolved_yaml(const Deck& deck) {
  return resolved_yaml(deck, DeckFile::model) + resolved_yaml(deck, DeckFile::cluster);
}

std::string resolved_yaml(const Deck& deck, DeckFile file) {
  Deck copy = deck;  // slots need a Deck that may change
  std::string text;
  std::string_view open;  // the group that the last line belongs to
  for (const Key& key : keys()) {
    if (file_of(section_of(key.name)) != file || is_of_item(key.name) ||
        failed_condition(key, deck) != nullptr) {
      continue;
    }
    const std::string_view group = parent_of(key.name);
    for (size_t at = 0; group != open && at < group.size();) {
      const size_t end = std::min(group.find('.', at), group.size());
      const std::string_view outer = group.substr(0, end);
      if (!belongs_to(open, outer)) {
        text += line(depth_of(outer), fmt::format("{}:", last_part(outer)));
      }
      at = end + 1;
    }
    open = group;
    const Slot slot = key.slot(copy, {});
    if (const std::optional<size_t> items = items_in(slot)) {
      text += list_yaml(copy, key, *items);
    } else {
      text += line(depth_of(key.name),
                   fmt::format("{}: {}", last_part(key.name), format_value(key, slot)));
    }
  }
  return text;
}

Deck with_vocab(Deck deck, int64_t vocab) {
  deck.model->vocab = vocab;
  return deck;
}

std::string reference_markdown() {
  std::string page(kIntroduction);
  for (const Section& section : sections()) {
    page += fmt::format("\n## {} ({})\n{}\n\n", section.name, describe(section.file), section.doc);
    page += "| key | default | allowed | meaning |\n|---|---|---|---|\n";
    for (const Key& key : keys()) {
      if (section_of(key.name) == section.name) {
        page += row(key);
      }
    }
  }
  return page;
}

}  // namespace hidup
