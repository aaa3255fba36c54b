#include "app/inputs.h"

#include "app/planning.h"
#include "comm/collective.h"

namespace hidup {

Decks load_decks(const std::string& model, const std::string& cluster,
                 const std::vector<std::string>& overrides, Communicator& world) {
  Decks decks;
  collectively(world, [&] {
    if (world.rank() == 0) {
      decks.model = model.empty() ? DeckSource{} : read_deck_file(model);
      decks.cluster = cluster.empty() ? DeckSource{} : read_deck_file(cluster);
    }
  });
  for (DeckSource* source : {&decks.model, &decks.cluster}) {
    for (std::string* text : {&source->name, &source->text, &source->folder}) {
      *text = world.broadcast(*text);
    }
  }
  collectively(world, [&] {
    decks.deck = parse_decks(model.empty() ? nullptr : &decks.model,
                             cluster.empty() ? nullptr : &decks.cluster, overrides, world.size());
    decks.graph = world.rank() == 0 ? graph_text(decks.deck) : "";
  });
  decks.graph = world.broadcast(decks.graph);
  return decks;
}

}  // namespace hidup
