// What reading the decks finds out about each key: where its value stands, and whether something is
// wrong with it. Names are those of keys, of groups ("cluster.device") and of items
// ("cluster.mesh[1]").
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
  // A deck starts here; an override counts only where its deck has no place yet.
  void start_deck(DeckFile file, const Position& start) { decks_[file] = start; }
  void start_override(DeckFile file, const Position& start) { decks_.try_emplace(file, start); }
  bool has_deck(DeckFile file) const { return decks_.contains(file); }
  const std::map<DeckFile, Position>& decks() const { return decks_; }

  void give(const std::string& name, const Position& position) { given_[name] = position; }
  bool is_given(const std::string& name) const { return given_.contains(name); }

  // Nothing can be said of the values there any more: what is wrong is reported.
  void refuse(const std::string& name) { refused_.insert(name); }
  bool is_refused(std::string_view name) const;

  // A default is nobody's: it has no place.
  void take_back(const std::string& name) { given_.erase(name); }
  void take_all_back() { given_.clear(); }

  // A later source starts afresh: nothing that was said of an earlier value holds.
  void forget(std::string_view name);

  // Where the value stands, else what it belongs to. Its deck must have a place.
  Position where(std::string_view name) const;

  // All of it as text, for errors that are found later.
  DeckPlaces describe(const Problems& sources) const;

 private:
  std::map<DeckFile, Position> decks_;
  std::map<std::string, Position> given_;
  std::set<std::string> refused_;
};

}  // namespace hidup
