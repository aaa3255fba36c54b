#include "planning.h"

#include "core/file.h"
#include "models/graph_file.h"
#include "models/transformer.h"
#include "search/named.h"

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

std::string strategy_text(const std::string& name_or_file, const Graph& graph, const Mesh& mesh) {
  return looks_like_file(name_or_file)
             ? read_text_file(name_or_file, "strategy")
             : print_strategy(graph, named_strategy(name_or_file, graph, mesh));
}

}  // namespace hidup
