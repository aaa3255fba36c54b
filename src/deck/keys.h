// The records of the decks' keys, one per key. They drive reading, --set, the checks, the resolved
// decks and the reference page. A new key needs a record and a member of its section.
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
struct TracePhase;
using Patterns = std::vector<std::string>;  // patterns of names with * and ? (core/text.h)

// The member that takes a value; its type decides the key's values. An optional is none for "auto",
// or for the key's first choice. A list of strings holds paths, an optional one patterns.
using Slot =
    std::variant<int64_t*, uint64_t*, double*, std::optional<int64_t>*, std::optional<double>*,
                 std::string*, std::vector<std::string>*, std::optional<Patterns>*, ValidationData*,
                 std::vector<MeshAxis>*, std::vector<DeviceClass>*, std::vector<TracePhase>*,
                 std::vector<ProductEfficiency>*>;

// The index of an item in a list of maps, and the index in a list that is a key of that item.
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
  bool or_zero = false;    // 0 is allowed too, and switches a feature off
};

// A condition of a key. Where it does not hold, the key has no place in the deck: giving it is an
// error, leaving it out is none, and its value is not judged.
struct Condition {
  std::string_view key;  // the key that decides
  bool (*holds)(const Deck& deck);
  std::string_view otherwise;  // the message where the key is given all the same
};

struct Key {
  // "section.key", or "section.list[].key" for a key of the items of a list, which may be nested.
  std::string name;
  std::string doc;
  // The default as a deck would write it. Empty: the key is required.
  std::string fallback;
  // Computes the default from other keys; `fallback` describes it then.
  int64_t (*derived)(const Deck& deck) = nullptr;
  std::vector<std::string> choices;
  Range range;
  Unit unit = Unit::none;
  bool per_rank = false;  // may be given as "2 x ranks"
  // "file" or "folder": the value is such a path or one of the choices; the last choice leaves it
  // empty. Empty: the value is no path.
  std::string_view path_of;
  std::vector<Condition> conditions;
  // Returns the member, for a name with "[]" that of `item`.
  Slot (*slot)(Deck& deck, Item item);
};

struct Section {
  std::string name;
  DeckFile file;
  std::string doc;
};

// Return the records in the reference's order; keys of a section and of a group stand together.
std::span<const Section> sections();
std::span<const Key> keys();

// Returns the first of the key's conditions that this deck does not meet, or null.
const Condition* failed_condition(const Key& key, const Deck& deck);

// Returns the key of that name, or null.
const Key* find_key(std::string_view name);

// Returns the section of a name: its first part, which is all of a name without a dot.
std::string_view section_of(std::string_view name);

// Returns the file that holds a section; nothing if there is no such section.
std::optional<DeckFile> file_of(std::string_view section);

// Returns "model deck" or "cluster deck".
std::string_view describe(DeckFile file);

}  // namespace hidup
