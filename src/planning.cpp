#include "planning.h"

#include "core/check.h"
#include "core/file.h"
#include "graph/batch.h"
#include "models/graph_file.h"
#include "models/transformer.h"
#include "search/named.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

// No strategy's name has a dot or a slash.
bool looks_like_file(const std::string& text) {
  return text.find_first_of("./") != std::string::npos;
}

}  // namespace

std::string graph_text(const Deck& deck) {
  return deck.model.graph.empty() ? "" : read_text_file(deck.model.graph, "graph");
}

Graph make_graph(const Deck& deck, const std::string& text, int64_t vocab) {
  return deck.model.graph.empty() ? build_model(deck, vocab)
                                  : read_graph(text, deck.model.graph, deck, vocab);
}

void check_strategy_choice(const std::string& name_or_file) {
  if (!looks_like_file(name_or_file)) {
    check_strategy_name(name_or_file);
  }
}

Strategy choose_strategy(const std::string& name_or_file, const Deck& deck, const Graph& graph,
                         const Mesh& mesh) {
  Strategy strategy =
      looks_like_file(name_or_file)
          ? parse_strategy(graph, mesh, read_text_file(name_or_file, "strategy"), name_or_file)
          : named_strategy(name_or_file, graph, mesh);
  if (deck.train.microbatches) {
    strategy.microbatches = static_cast<int>(*deck.train.microbatches);
    const std::string obstacle = batch_obstacle(graph);
    if (strategy.microbatches > 1 && !obstacle.empty()) {
      fail(ExitCode::usage, "train.microbatches: the batch of this graph cannot be split: {}",
           obstacle);
    }
  }
  return strategy;
}

}  // namespace hidup
