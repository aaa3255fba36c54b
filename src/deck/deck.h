// The decks: what a run computes, on which data, how it trains, on which machine.
//
// Two YAML files hold them: the model deck (sections model, data, train) and the
// cluster deck (section cluster). keys.cpp has one record per key, and says what
// every member of a section means, its default and its limits.
//
// Rank 0 reads the files and broadcasts their text, so all ranks parse the same bytes. A deck
// stays as it was parsed, and remembers where each key was written, for errors that are found
// later (fail_at()). What the data say has a place of its own (Dataset::vocab); with_vocab() gives
// the deck that a run records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "deck/indirect.h"

namespace hidup {

enum class DeckFile { model, cluster };

// Where values stand: "FILE:LINE:COLUMN", or "--set key=value" of an override.
struct DeckPlaces {
  std::map<std::string, std::string> given;  // keys, and the groups and items that hold them
  std::map<DeckFile, std::string> decks;     // the start of a deck, or its first override
};

struct ModelDeck;    // deck/model_deck.h
struct DataDeck;     // deck/data_deck.h
struct TrainDeck;    // deck/train_deck.h
struct ClusterDeck;  // deck/cluster_deck.h

struct Deck {
  Indirect<ModelDeck> model;
  Indirect<DataDeck> data;
  Indirect<TrainDeck> train;
  Indirect<ClusterDeck> cluster;
  DeckPlaces places;  // empty in a deck that was not parsed
};

// The place of the key's value, else of the closest group that is given, else of its deck; empty
// where there is none of them. For what turns out to be wrong only after parsing.
std::string place_of(const Deck& deck, std::string_view key);

// Throws an Error "PLACE: message" with the place of that key's value.
[[noreturn]] void fail_at(const Deck& deck, std::string_view key, const std::string& message,
                          ExitCode code = ExitCode::usage);

// The text of a deck and where it comes from.
struct DeckSource {
  std::string name;    // as messages show it: the path as typed
  std::string text;    // YAML
  std::string folder;  // relative paths in the deck start here
};

// Throws Error(file) where the path cannot be read.
DeckSource read_deck_file(const std::string& path);

// Reads the decks, then the overrides "section.key=value" (the value is YAML, the
// last override of a key holds, its relative paths start in the working directory).
// Either deck may be null: its sections then keep their defaults, and what they
// lack is not an error. A value such as "2 x ranks" becomes the number for `ranks`, or without
// them for the sizes of the mesh where the cluster deck gives all of them; else it is an error.
// Throws one Error(usage) with a line "FILE:LINE:COLUMN: message" per problem.
Deck parse_decks(const DeckSource* model, const DeckSource* cluster,
                 std::span<const std::string> overrides,
                 std::optional<int64_t> ranks = std::nullopt);

// The sizes of the mesh's axes for this many ranks, in the deck's order.
// Throws Error(usage) with the place where no size of the auto axis makes them fit, where
// cluster.devices are not as many, and where an axis is shared by what the other axes do not have.
std::vector<int64_t> check_ranks(const Deck& deck, int64_t ranks);

// All keys of one deck file that have a place in this deck, with their values: a deck
// that parses to the same values.
std::string resolved_yaml(const Deck& deck, DeckFile file);
// Of both, one behind the other: what runs record.
std::string resolved_yaml(const Deck& deck);

// The deck with this number as its vocabulary, which may be auto: as runs record it.
Deck with_vocab(Deck deck, int64_t vocab);

// The deck of such a text. An older build's lacks keys that came later: they have their defaults.
// Throws Error(file) where parse_decks() throws; `name` is what its messages call the text.
Deck parse_resolved(const std::string& name, const std::string& text);

// Keys that have other values in two texts of resolved_yaml(), "none" where one lacks them; by
// name.
struct ChangedKey {
  std::string key, before, now;
};
std::vector<ChangedKey> changed_keys(const std::string& before, const std::string& now);

// The page that explains how to write decks and lists every key (Markdown).
std::string reference_markdown();

}  // namespace hidup
