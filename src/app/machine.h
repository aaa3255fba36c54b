// The machine of a run: threads, a device, and message transport. Everything here is collective.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "cost/profile.h"
#include "deck/deck.h"
#include "device/device.h"
#include "runtime/mesh_groups.h"

namespace hidup {

// Returns the cores that this rank may use, divided by the ranks of its host bound to the same
// ones. Collective.
double share_of_cores(Communicator& world, const std::string& host);

// Returns the deck's number of threads; for auto, OMP_NUM_THREADS, or else this rank's
// share_of_cores(), at least 1. With emulated times the share is the limit, because the deck's
// number is that of the emulated device. If no core is left for communication, waits for messages
// yield the cores (comm/patient_yield.h). Collective.
int compute_threads(const Deck& deck, Communicator& world, const std::string& host);

// Returns this rank's device on its host, and the number of ranks that share it, for the kind of
// device that the program was built for.
DeviceOptions own_device(MpiSession& mpi);

// Returns own_device() with the deck's settings.
DeviceOptions device_options(const Deck& deck, MpiSession& mpi);

// Selects the arithmetic of bf16 products (cluster.device.bf16), the same on all ranks. Returns a
// line for people; empty on GPUs. Throws CollectiveError(unavailable) where a rank's CPU lacks the
// instructions that the deck asks for. Collective.
std::string choose_arithmetic(const Deck& deck, Communicator& world);

// Opens this rank's device as the deck asks, with its arithmetic.
std::unique_ptr<Device> open_device(const Deck& deck, MpiSession& mpi);

// Returns the transport of device collectives, mpi or nccl. Throws Error(unavailable) on all ranks
// where the deck's choice is impossible.
std::string choose_backend(const Deck& deck, MpiSession& mpi, const Device& device);

// Returns what makes the groups of the backend, which choose_backend() gave; empty for mpi.
GroupMaker group_maker(const Deck& deck, MpiSession& mpi, const std::string& backend);

// The transport of a run's device collectives, and its groups.
struct Communication {
  std::string backend;  // mpi, nccl
  std::optional<MeshGroups> groups;

  // Returns versions as loaded, for people: "NCCL 2.28.9"; empty for mpi, which every run loads.
  std::vector<std::string> libraries() const;
};

// Calls Device::take_free_memory() on all ranks, while none of them allocates or frees memory.
void take_free_memory(Device& device, Communicator& world);

struct Inputs;  // app/inputs.h

struct Machine {
  Communicator& world;
  std::string host;  // of this rank
  int threads = 1;   // of this rank's computation
  Communication communication;
  std::unique_ptr<Device> device;
};
// Opens the deck's machine. The device then owns the memory that communicators leave free. Throws
// CollectiveError(unavailable) where the deck's choice is impossible.
Machine open_machine(const Inputs& inputs, MpiSession& mpi);

// Knowledge of the machine that plans rest on.
struct MachineCosts {
  std::optional<Profile> costs;      // none: neither search nor prediction is possible
  bool measured = false;             // false: from rates of the cluster deck
  std::optional<DeviceRates> rates;  // of this rank's class, as measured
  std::vector<int64_t> memory;  // bytes available to a plan: of every rank, the least of its class
};
// Returns the costs of the deck's profile (app/profiling.h), or else of the deck's rates. Throws
// CollectiveError(usage) where the deck emulates without costs.
MachineCosts costs_of_machine(const Inputs& inputs, Machine& machine);

}  // namespace hidup
