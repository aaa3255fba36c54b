#include "deck/places.h"

#include <algorithm>
#include <utility>

#include "deck/key_names.h"
#include "deck/keys.h"

namespace hidup {
namespace {

// Returns the place of the name, or else of the closest group or item that it belongs to; or null.
template <typename Place>
const Place* closest(const std::map<std::string, Place>& given, std::string_view name) {
  for (; !name.empty(); name = parent_of(name)) {
    if (const auto found = given.find(std::string(name)); found != given.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

}  // namespace

bool KeyPlaces::is_refused(std::string_view name) const {
  return std::any_of(refused_.begin(), refused_.end(),
                     [&](const std::string& refused) { return belongs_to(name, refused); });
}

void KeyPlaces::forget(std::string_view name) {
  std::erase_if(refused_, [&](const std::string& old) { return belongs_to(old, name); });
  std::erase_if(given_, [&](const auto& old) { return belongs_to(old.first, name); });
}

Position KeyPlaces::where(std::string_view name) const {
  const Position* found = closest(given_, name);
  return found != nullptr ? *found : decks_.at(file_of(section_of(name)).value());
}

DeckPlaces KeyPlaces::describe(const Problems& sources) const {
  DeckPlaces places;
  for (const auto& [name, position] : given_) {
    places.given[name] = sources.describe(position);
  }
  for (const auto& [file, position] : decks_) {
    places.decks[file] = sources.describe(position);
  }
  return places;
}

std::string place_of(const Deck& deck, std::string_view key) {
  if (const std::string* found = closest(deck.places.given, key)) {
    return *found;
  }
  const auto found = deck.places.decks.find(file_of(section_of(key)).value());
  return found == deck.places.decks.end() ? "" : found->second;
}

void fail_at(const Deck& deck, std::string_view key, const std::string& message, ExitCode code) {
  const std::string place = place_of(deck, key);
  throw Error(code, place.empty() ? message : place + ": " + message);
}

}  // namespace hidup
