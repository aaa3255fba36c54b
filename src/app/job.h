// What the commands share that mpirun starts. Everything here is collective.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "comm/watchdog.h"
#include "cost/profile.h"
#include "deck/deck.h"
#include "device/device.h"
#include "program/program.h"
#include "runtime/mesh_groups.h"
#include "sharding/strategy.h"
#include "train/setup.h"

namespace hidup {

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

// The same data on all ranks; the deck's vocabulary becomes a number. `vocabulary`: see
// open_data().
Dataset load_data(Deck& deck, Communicator& world, const std::vector<std::string>& vocabulary = {});

// Which device of its host this rank takes, and with how many others; of the kind that the program
// was built for.
DeviceOptions own_device(MpiSession& mpi);

// The same as the deck has it.
DeviceOptions device_options(const Deck& deck, MpiSession& mpi);

// How products of bf16 are computed from now on (cluster.device.bf16), the same way on all ranks.
// A line for people; empty on GPUs. Throws CollectiveError(unavailable) where a rank's CPU has no
// instructions that the deck asks for. Collective.
std::string choose_arithmetic(const Deck& deck, Communicator& world);

// The device that the deck asks for, this rank's, and what it computes with.
std::unique_ptr<Device> open_device(const Deck& deck, MpiSession& mpi);

// mpi or nccl: what carries the device collectives. Throws Error(unavailable) on all ranks where
// what the deck asks for cannot be.
std::string choose_backend(const Deck& deck, MpiSession& mpi, const Device& device);

// What carries the device collectives of a run, and its groups.
struct Communication {
  std::string backend;  // mpi, nccl
  std::optional<MeshGroups> groups;

  // Versions as loaded, for people: "NCCL 2.28.9"; empty for mpi, which is there in any case.
  std::vector<std::string> libraries() const;
};
// As the deck has it, on the mesh of all ranks. What it leaves free is the device's memory from
// then on. Throws CollectiveError(unavailable) where that cannot be.
void open_communication(const Deck& deck, const Mesh& mesh, MpiSession& mpi, Device& device,
                        Communication& opened);

// Device::take_free_memory() on all ranks, while none of them takes or gives back any.
void take_free_memory(Device& device, Communicator& world);

// What a search in a run rests on.
struct SearchBasis {
  const std::optional<Profile>& costs;
  const std::string& hints;  // a file, or empty
  int64_t memory = 0;        // bytes of a rank's device
};

struct LoadedStrategy {
  Strategy strategy;
  double search_s = 0.0;  // 0: it was not searched for
};
// Rank 0 reads, makes or searches for the strategy, all ranks parse the same text; that all have
// the same is checked, not assumed.
LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const SearchBasis& basis, Communicator& world);

// Every rank makes the program; that all made the same is checked, not assumed. `fuse`: see
// LoweringOptions.
Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world, bool fuse = true);

// The same of the forward pass alone.
Program make_forward_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                             Communicator& world);

// Runs the work between start and end of MPI. Returns its exit code, the same on all ranks, or that
// of an error that all ranks have together, which one of them prints. Any other exception ends all
// ranks where it is thrown (comm/mpi_session.h): so there must be no handler around this.
int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work);

}  // namespace hidup
