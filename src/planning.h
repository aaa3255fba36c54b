// What the subcommands share: the graph and the strategy that a person asked for.
#pragma once

#include <string>

#include "deck/deck.h"
#include "sharding/strategy.h"

namespace hidup {

// The text of the deck's model.graph; empty where a family is built. Throws Error(file).
std::string graph_text(const Deck& deck);

// The deck's model with a vocabulary of `vocab` tokens. `text`: graph_text().
Graph make_graph(const Deck& deck, const std::string& text, int64_t vocab);

// Throws Error(usage) where it is neither a known name nor looks like a file (a dot or a slash).
void check_strategy_choice(const std::string& name_or_file);

// The strategy of a file, or the named one for this graph and mesh, with train.microbatches
// where the deck has them. Throws Error(file) or Error(usage).
Strategy choose_strategy(const std::string& name_or_file, const Deck& deck, const Graph& graph,
                         const Mesh& mesh);

}  // namespace hidup
