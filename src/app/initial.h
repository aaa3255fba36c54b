// A model trained by others, as the start of a run.
#pragma once

#include <map>
#include <string>

#include "deck/deck.h"
#include "graph/graph.h"
#include "interchange/match.h"
#include "runtime/executor.h"

namespace hidup {

// The initial values of parameters.
class InitialModel {
 public:
  // `path`: see TensorFiles. `names`: a map's name; empty: the map that fits the files' names. The
  // deck must match config.json, if present. Throws Error(file) or Error(usage).
  InitialModel(const std::string& path, const std::string& names, const Deck& deck,
               const Graph& graph, int64_t vocab);

  // Sets this rank's parts of parameters and their f32 masters. The rest starts as usual. Throws
  // Error(file).
  void load(Executor& executor, int64_t rank) const;

  const std::string& path() const { return files_.path(); }
  std::string_view names() const { return names_->name; }

 private:
  TensorFiles files_;
  const NameMap* names_;
  std::map<std::string, TensorSource> sources_;
};

// Returns true where the names are for the deck's model.
bool fits_family(const NameMap& names, const Deck& deck);
// Returns true where the names are those that such a model most likely has.
bool fits_model(const NameMap& names, const Deck& deck);
// Throws Error(usage) where the names are for another model.
void check_family(const NameMap& names, const Deck& deck);

// Throws Error(usage) with the nearest name where no map has that name. Accepts an empty name.
void check_names(const std::string& names);

}  // namespace hidup
