// What `train` would find with the arguments that `doctor` got.
#pragma once

#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "deck/deck.h"

namespace hidup {

struct RunCheckup {
  Deck deck;                          // of default values where there is none, or a wrong one
  bool has_cluster = false;           // the deck tells devices and mesh
  std::vector<std::string> facts;     // lines for people; on rank 0
  std::vector<std::string> findings;  // what looks wrong, a line each; on rank 0
};

// Collective. Both decks may be missing. Writes nothing.
RunCheckup check_run(const TrainOptions& options, MpiSession& mpi);

}  // namespace hidup
