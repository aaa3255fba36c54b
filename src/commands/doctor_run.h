// Findings for the arguments of `doctor` that `train` would meet.
#pragma once

#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "deck/deck.h"

namespace hidup {

struct RunCheckup {
  Deck deck;                          // default values if the deck is missing or wrong
  bool has_cluster = false;           // the deck describes devices and mesh
  std::vector<std::string> facts;     // lines for people; on rank 0
  std::vector<std::string> findings;  // suspicious facts, a line each; on rank 0
};

// Collective. Checks the steps that `train` would take. Both decks are optional. Writes nothing.
RunCheckup check_run(const TrainOptions& options, MpiSession& mpi);

}  // namespace hidup
