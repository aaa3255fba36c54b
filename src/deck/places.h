// The place of each key's value, and the keys with problems, while decks are read. Names are those
// of keys, of groups ("cluster.device") and of items ("cluster.mesh[1]").
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "deck/deck.h"
#include "yaml/problems.h"

namespace hidup {

class KeyPlaces {
 public:
  // Set the start of a deck. An override counts only where its deck has no place yet.
  void start_deck(DeckFile file, const Position& start) { decks_[file] = start; }
  void start_override(DeckFile file, const Position& start) { decks_.try_emplace(file, start); }
  bool has_deck(DeckFile file) const { return decks_.contains(file); }
  const std::map<DeckFile, Position>& decks() const { return decks_; }

  void give(const std::string& name, const Position& position) { given_[name] = position; }
  bool is_given(const std::string& name) const { return given_.contains(name); }

  // Marks a value that cannot be judged any more, because its problem is reported.
  void refuse(const std::string& name) { refused_.insert(name); }
  bool is_refused(std::string_view name) const;

  // Removes the place of a default, because a default has none.
  void take_back(const std::string& name) { given_.erase(name); }
  void take_all_back() { given_.clear(); }

  // Forgets places and problems of the name, because a later source gives another value.
  void forget(std::string_view name);

  // Returns the place of the value, else of its item, group or deck. The deck must have a place.
  Position where(std::string_view name) const;

  // Returns all places as text, for errors that are found later.
  DeckPlaces describe(const Problems& sources) const;

 private:
  std::map<DeckFile, Position> decks_;
  std::map<std::string, Position> given_;
  std::set<std::string> refused_;
};

}  // namespace hidup
