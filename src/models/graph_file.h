// A user's own model: a single-device graph in text form instead of a family.
#pragma once

#include <string>

#include "deck/deck.h"
#include "graph/graph.h"

namespace hidup {

// Parses the text (graph/text.h) and checks that it can be trained with the deck: inputs
// tokens and targets of i32[train.batch, model.sequence], or with data.kind images those of a vit
// (models/transformer.h), the loss a cross_entropy and the last
// operation, everything used and reached by a gradient, and room for `vocab` different tokens.
// Throws Error(usage) with `source`, line and column, and what was expected.
Graph read_graph(const std::string& text, const std::string& source, const Deck& deck,
                 int64_t vocab);

}  // namespace hidup
