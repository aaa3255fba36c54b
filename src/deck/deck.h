// The decks: the model, data, training and machine of a run.
//
// Two YAML files hold them: the model deck (sections model, data, train, search) and the cluster
// deck (section cluster). keys.cpp has one record per key with the meaning, default and limits of
// its member.
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

// Places of values: "FILE:LINE:COLUMN", or "--set key=value" for an override.
struct DeckPlaces {
  std::map<std::string, std::string> given;  // keys, and the groups and items that hold them
  std::map<DeckFile, std::string> decks;     // the start of a deck, or its first override
};

struct ModelDeck;    // deck/model_deck.h
struct DataDeck;     // deck/data_deck.h
struct TrainDeck;    // deck/train_deck.h
struct SearchDeck;   // deck/search_deck.h
struct ClusterDeck;  // deck/cluster_deck.h

struct Deck {
  Indirect<ModelDeck> model;
  Indirect<DataDeck> data;
  Indirect<TrainDeck> train;
  Indirect<SearchDeck> search;
  Indirect<ClusterDeck> cluster;
  DeckPlaces places;  // empty in a deck that was not parsed
};

// Returns the place of the key's value, else of the closest group that is given, else of its deck;
// empty where none has a place. Problems that show only after parsing need it.
std::string place_of(const Deck& deck, std::string_view key);

// Throws an Error "PLACE: message" with the place of that key's value.
[[noreturn]] void fail_at(const Deck& deck, std::string_view key, const std::string& message,
                          ExitCode code = ExitCode::usage);

// The text of a deck and its origin.
struct DeckSource {
  std::string name;    // the path as typed, for messages
  std::string text;    // YAML
  std::string folder;  // relative paths in the deck start here
};

// Reads a deck. Throws Error(file) where the path cannot be read.
DeckSource read_deck_file(const std::string& path);

// Reads the decks, then the overrides "section.key=value": the value is YAML, the last override of
// a key holds, and relative paths start in the working directory. A deck that is null keeps its
// defaults, and its missing keys are no error. A value such as "2 x ranks" is multiplied by
// `ranks`, or without it by the size of the mesh where the cluster deck gives all of it; else it is
// an error. Throws one Error(usage) with a line "FILE:LINE:COLUMN: message" per problem.
Deck parse_decks(const DeckSource* model, const DeckSource* cluster,
                 std::span<const std::string> overrides,
                 std::optional<int64_t> ranks = std::nullopt);

// Returns the sizes of the mesh's axes for this many ranks, in the deck's order. Throws
// Error(usage) with the place where no size of the auto axis fits, cluster.devices have another
// number, or an axis's shared does not divide the other axes' ranks, or its per_host its own.
std::vector<int64_t> check_ranks(const Deck& deck, int64_t ranks);

// Returns the keys of one deck file that have a place in this deck, as text that reads as the same.
std::string resolved_yaml(const Deck& deck, DeckFile file);
// Returns the keys of both files, one after the other, as runs record them.
std::string resolved_yaml(const Deck& deck);

// Returns the deck with this number as its vocabulary, which may be auto, as runs record it.
Deck with_vocab(Deck deck, int64_t vocab);

// Reads a text of resolved_yaml(). Keys that an older build did not know have their defaults.
// Throws Error(file) where parse_decks() throws; messages call the text `name`.
Deck parse_resolved(const std::string& name, const std::string& text);

// A key whose values differ in two texts of resolved_yaml(); "none" where one lacks it.
struct ChangedKey {
  std::string key, before, now;
};
// Returns the changed keys by name.
std::vector<ChangedKey> changed_keys(const std::string& before, const std::string& now);

// Returns the page that explains how to write decks and lists every key (Markdown).
std::string reference_markdown();

}  // namespace hidup
