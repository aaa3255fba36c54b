// One record per key of the decks: it drives reading, --set, the checks, the
// resolved decks and the reference page. A new key is a new record (and the member
// of its section that it fills).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/units.h"
#include "deck/deck.h"

namespace hidup {

inline constexpr double kHour = 3600.0;  // seconds

struct ValidationData;
struct MeshAxis;
struct DeviceClass;
struct ProductEfficiency;
struct LinkPhase;
using Patterns = std::vector<std::string>;  // of names, with * and ? (core/text.h)

// Where a value goes; the type says what the key takes. An optional takes "auto" for none, or
// the key's only choice. A list of strings holds paths, an optional one patterns of names, the
// other lists maps.
using Slot =
    std::variant<int64_t*, uint64_t*, double*, std::optional<int64_t>*, std::optional<double>*,
                 std::string*, std::vector<std::string>*, std::optional<Patterns>*, ValidationData*,
                 std::vector<MeshAxis>*, std::vector<DeviceClass>*, std::vector<LinkPhase>*,
                 std::vector<ProductEfficiency>*>;

// Which item of a list of maps: its index there, and in the list that is a key of that item.
struct Item {
  size_t outer = 0;
  size_t inner = 0;
};

// Limits of a number, in base units.
struct Range {
  double min = 0.0;
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
  bool below_max = false;  // max itself is not allowed
  bool or_zero = false;    // 0 is allowed too, and switches something off
};

// What a key depends on. Where it does not hold, the key has no place in the deck: it
// is refused, not required, and has no value to be judged.
struct Condition {
  std::string_view key;  // that decides
  bool (*holds)(const Deck& deck);
  std::string_view otherwise;  // what is wrong with giving the key all the same
};

struct Key {
  // "section.key"; "section.list[].key" for a key of every item of a list of maps, which may be a
  // list again.
  std::string name;
  std::string doc;
  // As a deck would write it. Empty: the key is required.
  std::string fallback;
  // Computes the default from other keys; `fallback` then says how.
  int64_t (*derived)(const Deck& deck) = nullptr;
  std::vector<std::string> choices;
  Range range;
  Unit unit = Unit::none;
  bool per_rank = false;  // may be given as "2 x ranks"
  // "file", "folder": a value that is the path of one, or one of the choices; the last choice
  // leaves it empty. Empty: no path.
  std::string_view path_of;
  std::vector<Condition> conditions;
  // The member; `item` says of which item where the name has a "[]".
  Slot (*slot)(Deck& deck, Item item);
};

struct Section {
  std::string name;
  DeckFile file;
  std::string doc;
};

// In the order of the reference; the keys of a section and of a group stand together.
std::span<const Section> sections();
std::span<const Key> keys();

// The first of the key's conditions that this deck does not meet, or null.
const Condition* failed_condition(const Key& key, const Deck& deck);

// The key of that name, or null.
const Key* find_key(std::string_view name);

// The first component of a name: its section. The whole name if it has no dot.
std::string_view section_of(std::string_view name);

// The file that holds a section; nothing if there is no such section.
std::optional<DeckFile> file_of(std::string_view section);

// "model deck" or "cluster deck"
std::string_view describe(DeckFile file);

}  // namespace hidup
