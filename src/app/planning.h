// Shared by the subcommands: the graph, the requested strategy, and inputs of predictions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/forecast.h"
#include "deck/deck.h"
#include "io/output_path.h"
#include "program/lower.h"
#include "search/search.h"
#include "sharding/strategy.h"

namespace hidup {

// Returns the text of a strategy or of hints (`what`). Throws Error(file).
std::string read_strategy_file(const std::string& file, std::string_view what);

// Returns the text of the deck's model.graph; empty for model families. Throws Error(file).
std::string graph_text(const Deck& deck);

// Returns the element type of a model.precision.
DType element_type(const std::string& precision);

// Makes the deck's model with a vocabulary of `vocab` tokens. `text`: graph_text().
Graph make_graph(const Deck& deck, const std::string& text, int64_t vocab);

// Returns the files that a command reads, for prepare_outputs(): the decks and the files that they
// name, and `choice` (a strategy) and `hints` where these are files.
std::vector<NamedFile> files_read(const std::string& model, const std::string& cluster,
                                  const Deck& deck, const std::string& choice = "",
                                  const std::string& hints = "");

// Returns the mesh with the deck's names and these sizes. Ranks are numbered in the deck's order of
// axes, with neighbours on the last one. If every axis has a bandwidth, the mesh starts with the
// axis of the slowest links, so that the deck's order does not affect plans.
Mesh mesh_of(const Deck& deck, const std::vector<int64_t>& sizes);

// Returns the options of the deck's training section.
LoweringOptions lowering_options(const Deck& deck);

// The facts about the data that a plan uses.
struct PlannedData {
  int64_t vocab = 0;        // Dataset::vocab
  std::string description;  // a line for people
  bool is_read = true;      // false: known only from the deck
};
// Opens the data only where the deck lacks a size (vocab_of()), because data may be large or
// remote. Throws as open_data().
PlannedData data_for_planning(const Deck& deck);

// The input of commands that start no ranks.
struct PlanningInput {
  Deck deck;
  Mesh mesh;
  PlannedData data;
  Graph graph;
};

// Reads the decks (`cluster` may be empty) and the facts about the data. Without `ranks` the mesh
// gives their number, and an axis of size auto has one rank. Throws Error(usage) or Error(file).
PlanningInput read_planning_input(const std::string& model, const std::string& cluster,
                                  const std::vector<std::string>& overrides,
                                  std::optional<int64_t> ranks);

inline constexpr const char* kSearch = "search";  // as a choice of strategy

// Throws Error(usage) for text that is not empty, "search", a known name, or like a file (with a
// dot or a slash).
void check_strategy_choice(const std::string& name_or_file);

// Returns the strategy of a file, or the named one for this graph and mesh with train.recompute;
// with train.microbatches and train.accumulate if the deck has them. Given costs, a named one gets
// the fastest routes and algorithms (choose_routes.h). Throws Error(file) or Error(usage).
Strategy choose_strategy(const std::string& name_or_file, const Deck& deck, const Graph& graph,
                         const Mesh& mesh, const std::optional<Profile>& costs = std::nullopt);

// Returns the strategy of a checkpoint; none where it is for another graph or mesh.
std::optional<Strategy> stored_strategy(const std::string& text, const Deck& deck,
                                        const Graph& graph, const Mesh& mesh);

// Default time limits of a search, in seconds.
inline constexpr double kSearchTime = 10.0;
inline constexpr double kThoroughSearchTime = 60.0;

// Throws Error(usage) where the deck asks for what a search does not find.
void check_that_a_search_fits(const Deck& deck);

// Returns the search options of the decks. `hints`: a file (sharding/hints.h), or empty. Throws as
// read_hints(), and Error(file).
SearchOptions search_options(const Deck& deck, const Graph& graph, const Mesh& mesh,
                             const std::string& hints);

}  // namespace hidup
