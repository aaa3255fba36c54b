// The inputs of a run, equal on all ranks: decks, and files that they and the command line name.
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

// Returns the text of `read`, which runs on rank 0 only and may throw, on all ranks. Collective.
std::string text_of_first(Communicator& world, const std::function<std::string()>& read);

struct Decks {
  DeckSource model;
  DeckSource cluster;
  std::string graph;  // text of model.graph; empty for model families
  Deck deck;
  std::vector<std::string> hosts;  // of every rank, as mpirun numbers them
  bool ranks_are_counted = false;  // cluster.devices means ranks as mpirun numbers them
};
// Reads the files on rank 0 and parses the same text on all ranks. parse_decks() defines the
// meaning of empty paths. `host`: of this rank; cluster.devices may name it.
Decks load_decks(const std::string& model, const std::string& cluster,
                 const std::vector<std::string>& overrides, Communicator& world,
                 const std::string& host);

// Numbers the ranks as cluster.order asks, in the deck, too. Returns mpirun's numbers of the ranks
// in their new order; nothing where it stays. mpi.world() may be another group afterwards.
// Collective.
std::vector<int> order_ranks(Decks& decks, const Mesh& mesh, MpiSession& mpi);

// The inputs that the command line names.
struct InputOptions {
  std::string deck;
  std::string cluster;
  std::vector<std::string> overrides;
  std::string strategy;  // no output may be this file or that of the hints
  std::string hints;
  std::string init;   // initial tensors without a checkpoint; empty: none
  std::string names;  // name map of these tensors
  RunFileOptions files;
  // The command's check of the deck, before anything slow. Throws Error.
  std::function<void(const Deck&)> check;
};

// The inputs, which stay constant.
struct Inputs {
  Decks decks;
  Mesh mesh;
  std::vector<int> mpi_ranks;  // order_ranks()
  RunFiles files;
  Dataset data;
  Graph graph;
  std::optional<InitialModel> initial;

  const Deck& deck() const { return decks.deck; }
};
// Reads all inputs. A checkpoint's model must be the decks'. Without training, the data have the
// checkpoint's vocabulary. Throws CollectiveError. Collective.
Inputs read_inputs(const InputOptions& options, MpiSession& mpi);

}  // namespace hidup
