// All that a run is given, the same on all ranks: decks, and what they and the command line name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/initial.h"
#include "app/run_files.h"
#include "comm/mpi_session.h"
#include "deck/deck.h"
#include "graph/graph.h"
#include "sharding/placement.h"
#include "train/dataset.h"

namespace hidup {

// Collective. The text that `read` gives on rank 0; it is called there alone, and may throw.
std::string text_of_first(Communicator& world, const std::function<std::string()>& read);

struct Decks {
  DeckSource model;
  DeckSource cluster;
  std::string graph;  // text of model.graph; empty where a family is built
  Deck deck;
};
// Rank 0 reads the files, all ranks parse the same text. Either path may be empty: parse_decks()
// says what that means.
Decks load_decks(const std::string& model, const std::string& cluster,
                 const std::vector<std::string>& overrides, Communicator& world);

// The command line's part of them.
struct InputOptions {
  std::string deck;
  std::string cluster;
  std::vector<std::string> overrides;
  std::string strategy;  // no output may be this file, or that of the hints
  std::string hints;
  std::string init;   // tensors to start with, where there is no checkpoint; empty: none
  std::string names;  // of these
  RunFileOptions files;
  // The command asks this of the deck, before anything costs time. Throws Error.
  std::function<void(const Deck&)> check;
};

// Nothing changes it once it is there.
struct Inputs {
  Decks decks;
  Mesh mesh;
  RunFiles files;
  Dataset data;
  Graph graph;
  std::optional<InitialModel> initial;

  const Deck& deck() const { return decks.deck; }
};
// Collective. The checkpoint's model is that of the decks, and its vocabulary that of the data
// where nothing is trained. Throws CollectiveError.
Inputs read_inputs(const InputOptions& options, MpiSession& mpi);

}  // namespace hidup
