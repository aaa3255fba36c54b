// A user's own model: a single-device graph in text form.
#pragma once

#include <string>

#include "deck/deck.h"
#include "graph/graph.h"

namespace hidup {

// Parses the text (graph/text.h) and checks that the deck can train it: inputs tokens and targets
// i32[train.batch, model.sequence], or with data.kind images those of a vit (models/transformer.h);
// a cross_entropy loss as the last operation; no unused tensor and none without a gradient; room
// for `vocab` different tokens. Throws Error(usage) with `source`, line, column and the
// expectation.
Graph read_graph(const std::string& text, const std::string& source, const Deck& deck,
                 int64_t vocab);

}  // namespace hidup
