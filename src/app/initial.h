// A model that others trained, as the start of a run.
#pragma once

#include <map>
#include <string>

#include "deck/deck.h"
#include "graph/graph.h"
#include "interchange/match.h"
#include "runtime/executor.h"

namespace hidup {

// Tensors that the parameters start with.
class InitialModel {
 public:
  // `path`: see TensorFiles. `names`: of a map; empty: the one whose names the files have. Where
  // config.json is there, the deck must be as it says. Throws Error(file) or Error(usage).
  InitialModel(const std::string& path, const std::string& names, const Deck& deck,
               const Graph& graph, int64_t vocab);

  // Gives parameters and their f32 masters these values, this rank its parts; all else starts as
  // without them. Throws Error(file).
  void load(Executor& executor, int64_t rank) const;

  const std::string& path() const { return files_.path(); }
  std::string_view names() const { return names_->name; }

 private:
  TensorFiles files_;
  const NameMap* names_;
  std::map<std::string, TensorSource> sources_;
};

// Whether the names are for the deck's model.
bool fits_family(const NameMap& names, const Deck& deck);
// Throws Error(usage) where they are not.
void check_family(const NameMap& names, const Deck& deck);

// Throws Error(usage) where there is no map of that name, with the nearest one. Empty is right.
void check_names(const std::string& names);

}  // namespace hidup
