// What the subcommands share: the graph, the strategy that a person asked for, and what is
// predicted of it.
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

// The text of a strategy or of hints (`what`). Throws Error(file).
std::string read_strategy_file(const std::string& file, std::string_view what);

// The text of the deck's model.graph; empty where a family is built. Throws Error(file).
std::string graph_text(const Deck& deck);

// Of model.precision.
DType element_type(const std::string& precision);

// The deck's model with a vocabulary of `vocab` tokens. `text`: graph_text().
Graph make_graph(const Deck& deck, const std::string& text, int64_t vocab);

// The files that a command reads: the decks and what they name. With `choice`, of a strategy, and
// `hints`, those where they are files. For prepare_outputs().
std::vector<NamedFile> files_read(const std::string& model, const std::string& cluster,
                                  const Deck& deck, const std::string& choice = "",
                                  const std::string& hints = "");

// The mesh with the deck's names and these sizes. Ranks are numbered as the deck has its axes, the
// last one's are neighbours. Where it has a bandwidth for each, the mesh has the axis of the
// slowest links first, so that the order in the deck makes no difference to what is planned.
Mesh mesh_of(const Deck& deck, const std::vector<int64_t>& sizes);

// The program as the training section wants it.
LoweringOptions lowering_options(const Deck& deck);

// What a plan knows of the data.
struct PlannedData {
  int64_t vocab = 0;        // Dataset::vocab
  std::string description;  // a line for people
  bool is_read = true;      // else it is only what the deck says
};
// Opens the data only where the deck does not say all sizes (vocab_of()): a plan needs no more of
// it, and it may be large, or elsewhere. Throws as open_data().
PlannedData data_for_planning(const Deck& deck);

// What commands that start no ranks work on.
struct PlanningInput {
  Deck deck;
  Mesh mesh;
  PlannedData data;
  Graph graph;
};

// Reads the decks (`cluster` may be empty), and what a plan needs of the data. Without `ranks`
// there are as many as the mesh has, where an axis of size auto is one rank. Throws Error(usage) or
// Error(file).
PlanningInput read_planning_input(const std::string& model, const std::string& cluster,
                                  const std::vector<std::string>& overrides,
                                  std::optional<int64_t> ranks);

inline constexpr const char* kSearch = "search";  // as a choice of strategy

// Throws Error(usage) where it is neither empty, nor "search", nor a known name, nor looks like a
// file (a dot or a slash).
void check_strategy_choice(const std::string& name_or_file);

// The strategy of a file, or the named one for this graph and mesh with train.recompute; with
// train.microbatches and train.accumulate where the deck has them. Throws Error(file) or
// Error(usage).
// A named one goes the ways that take least by the costs, if any (choose_ways.h).
Strategy choose_strategy(const std::string& name_or_file, const Deck& deck, const Graph& graph,
                         const Mesh& mesh, const std::optional<Profile>& costs = std::nullopt);

// The strategy that a checkpoint has; nothing where it is for another graph or mesh.
std::optional<Strategy> stored_strategy(const std::string& text, const Deck& deck,
                                        const Graph& graph, const Mesh& mesh);

// Seconds that a search may take where nobody says how long.
inline constexpr double kSearchTime = 10.0;
inline constexpr double kThoroughSearchTime = 60.0;

// Of the search that the decks ask for. `hints`: a file (sharding/hints.h), or empty. Throws as
// read_hints() does, and Error(file).
SearchOptions search_options(const Deck& deck, const Graph& graph, const Mesh& mesh,
                             const std::string& hints);

}  // namespace hidup
