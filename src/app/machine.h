// A run computes on this: threads, a device, and what carries its messages. All of it is
// collective.
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

// The cores that this rank may run on, divided by the ranks of its host that are bound to the same
// ones. Collective.
double share_of_cores(Communicator& world, const std::string& host);

// The deck's number of threads; or, for auto, OMP_NUM_THREADS; or else this rank's
// share_of_cores(), at least 1. Where times are emulated, not more than that: the deck's number is
// that of the emulated device. Where that leaves no core for communication, messages are waited for
// accordingly (comm/patient_yield.h). Collective.
int compute_threads(const Deck& deck, Communicator& world, const std::string& host);

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

// Device::take_free_memory() on all ranks, while none of them takes or gives back any.
void take_free_memory(Device& device, Communicator& world);

struct Inputs;  // app/inputs.h

struct Machine {
  Communicator& world;
  std::string host;  // of this rank
  int threads = 1;   // of this rank's computation
  Communication communication;
  std::unique_ptr<Device> device;
};
// As the deck has it. What the communicators leave free is the device's memory from then on. Throws
// CollectiveError(unavailable) where that cannot be.
Machine open_machine(const Inputs& inputs, MpiSession& mpi);

// A plan rests on this knowledge of the machine.
struct MachineCosts {
  std::optional<Profile> costs;      // none: a search is not possible, nor a prediction
  bool measured = false;             // else they are rates of the cluster deck
  std::optional<DeviceRates> rates;  // as measured
  int64_t memory = 0;                // bytes that a plan may take, the least of all ranks
};
// Returns the costs of the profile that the deck asks for (app/profiling.h), else of the deck's
// rates. Throws CollectiveError(usage) where the deck emulates and has no costs.
MachineCosts costs_of_machine(const Inputs& inputs, Machine& machine);

}  // namespace hidup
