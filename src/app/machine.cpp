#include "app/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

#include "app/costs.h"
#include "app/inputs.h"
#include "app/launch.h"
#include "app/profiling.h"
#include "comm/collective.h"
#include "comm/nccl_communicator.h"
#include "comm/patient_yield.h"
#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "kernels/arithmetic.h"
#include "kernels/products.h"

namespace hidup {
namespace {

// Describes the first two ranks that share a GPU; empty without any. `gpus`: a place per rank.
std::string shared_gpu(const std::vector<std::string>& gpus) {
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto other =
        std::find(gpus.begin() + static_cast<std::ptrdiff_t>(rank) + 1, gpus.end(), gpus[rank]);
    if (other != gpus.end()) {
      return fmt::format("ranks {} and {} share the GPU {}", rank, other - gpus.begin(),
                         gpus[rank]);
    }
  }
  return "";
}

// Returns the least memory of every rank's class; in emulated time, the deck's. `memory`: of every
// rank.
std::vector<int64_t> memory_of_classes(const Deck& deck, std::vector<int64_t> memory) {
  const std::vector<DeviceClass> devices = device_classes(*deck.cluster);
  const std::vector<size_t> items =
      classes_of_ranks(*deck.cluster, static_cast<int64_t>(memory.size()));
  std::vector<int64_t> least(devices.size(), std::numeric_limits<int64_t>::max());
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    least[items[rank]] = std::min(least[items[rank]], memory[rank]);
  }
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    const std::optional<int64_t> of_deck = devices[items[rank]].memory;
    memory[rank] =
        deck.cluster->emulates() ? of_deck.value_or(least[items[rank]]) : least[items[rank]];
  }
  return memory;
}

std::optional<DeviceRates> rates_of_rank(const Profile& profile, int64_t rank) {
  return profile.rates_by_class.empty() ? profile.rates
                                        : profile.rates_by_class.at(static_cast<size_t>(
                                              profile.key.classes.at(static_cast<size_t>(rank))));
}

}  // namespace

double share_of_cores(Communicator& world, const std::string& host) {
  struct Place {
    uint64_t host;
    cpu_set_t cores;
  };
  Place mine{hash_of(host), {}};
  sched_getaffinity(0, sizeof(mine.cores), &mine.cores);
  const std::vector<Place> places = all_gather_value(world, mine);
  const auto sharing = std::ranges::count_if(places, [&](const Place& place) {
    return place.host == mine.host && CPU_EQUAL(&place.cores, &mine.cores);
  });
  return CPU_COUNT(&mine.cores) / static_cast<double>(sharing);
}

int compute_threads(const Deck& deck, Communicator& world, const std::string& host) {
  const int share = std::max(1, static_cast<int>(share_of_cores(world, host)));
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  int threads = share;
  const std::optional<int64_t> of_deck =
      device_of_rank(*deck.cluster, world.rank(), world.size()).threads;
  if (of_deck) {
    threads = static_cast<int>(*of_deck);
  } else if (wanted != nullptr && std::atoi(wanted) > 0) {
    threads = std::atoi(wanted);
  }
  if (deck.cluster->emulates()) {
    // The deck's number is that of the emulated device. Communicating ranks have met before and
    // share their cores; naps take about half the time of yielding.
    wait_beside_computation(true);
    return std::min(threads, share);
  }
  wait_beside_computation(threads >= share);
  return threads;
}

DeviceOptions own_device(MpiSession& mpi) {
  DeviceOptions options{.local_rank = mpi.local_rank()};
  const uint64_t mine = hash_of(fmt::format("{} on {}", device_place(options), mpi.host()));
  const std::vector<uint64_t> places = all_gather_value(mpi.world(), mine);
  options.sharing = static_cast<int>(std::ranges::count(places, mine));
  return options;
}

DeviceOptions device_options(const Deck& deck, MpiSession& mpi) {
  DeviceOptions options = own_device(mpi);
  // The deck describes the emulated device; CPUs compute.
  const DeviceClass device = device_of_rank(*deck.cluster, mpi.world().rank(), mpi.world().size());
  options.kind = deck.cluster->emulates() ? "cpu"
                 : device.kind == "auto"  ? device_kind()
                                          : device.kind;
  options.memory = device.memory.value_or(0);
  return options;
}

std::string choose_arithmetic(const Deck& deck, Communicator& world) {
  const std::string& wish = deck.cluster->bf16;
  collectively(world, [&] {
    if (wish == "native" && !kernels::has_bf16_products()) {
      fail(ExitCode::unavailable,
           "cluster.device.bf16 is native, and this CPU has no instructions for bf16 that the "
           "library uses: set it to auto or f32");
    }
  });
  const bool mine = wish == "native" || (wish != "f32" && kernels::bf16_products_are_faster());
  const std::vector<int> wanted = all_gather_value(world, int{mine});
  const bool native = std::ranges::all_of(wanted, [](int rank) { return rank != 0; });
  kernels::multiply_bf16_natively(native);
  return kernels::describe_arithmetic();
}

std::unique_ptr<Device> open_device(const Deck& deck, MpiSession& mpi) {
  const DeviceOptions options = device_options(deck, mpi);
  std::unique_ptr<Device> device;
  collectively(mpi.world(), [&] {
    if (deck.cluster->emulates() && device_kind() != "cpu") {
      fail_at(
          deck, "cluster.emulate",
          fmt::format("cluster.emulate is on, but this binary was built for {} ranks: emulation "
                      "needs a build for CPU ranks",
                      device_kind()),
          ExitCode::unavailable);
    }
    device = make_device(options);
    kernels::reserve_multiprocessors(static_cast<int>(deck.cluster->reserved_multiprocessors));
  });
  choose_arithmetic(deck, mpi.world());
  return device;
}

std::string choose_backend(const Deck& deck, MpiSession& mpi, const Device& device) {
  if (deck.cluster->emulates()) {
    log::info("collectives: mpi, in emulated time");
    return "mpi";
  }
  Communicator& world = mpi.world();
  const std::string& wanted = deck.cluster->comm_backend;
  const std::vector<int> without = ranks_where(world, !has_nccl());
  std::string obstacle;
  std::string advice;
  if (without.empty() && wanted != "mpi") {
    const std::string mine = fmt::format("{} on {}", device.description(), mpi.host());
    obstacle = world.broadcast(shared_gpu(gather_texts(world, mine)));
    advice = ", which NCCL refuses: start a rank per GPU, or take mpi";
  } else if (std::ssize(without) < world.size() || wanted == "nccl") {
    obstacle = fmt::format("the program of {} was built without NCCL", format_ranks(without));
    advice = ": take auto or mpi";
  }
  if (wanted == "nccl" && !obstacle.empty()) {
    fail_at(deck, "cluster.comm.backend",
            fmt::format("cluster.comm.backend is nccl, but {}{}", obstacle, advice),
            ExitCode::unavailable);
  }
  const bool takes_nccl = without.empty() && wanted != "mpi" && obstacle.empty();
  const bool explains = wanted != "mpi" && !obstacle.empty();
  log::info("collectives: {}", takes_nccl ? "nccl" : explains ? "mpi, because " + obstacle : "mpi");
  return takes_nccl ? "nccl" : "mpi";
}

std::vector<std::string> Communication::libraries() const {
  std::vector<std::string> all;
  if (backend == "nccl") {
    for (const LibraryVersion& library : nccl_libraries()) {
      all.push_back(library.name + " " + library.loaded);
    }
  }
  return all;
}

void take_free_memory(Device& device, Communicator& world) {
  world.barrier();
  collectively(world, [&] { device.take_free_memory(); });
}

GroupMaker group_maker(const Deck& deck, MpiSession& mpi, const std::string& backend) {
  if (backend != "nccl") {
    return {};
  }
  return [&](std::unique_ptr<Communicator> group, const std::string& axis) {
    return make_nccl_communicator(std::move(group), axis, mpi.world().rank(),
                                  {.max_ctas = static_cast<int>(deck.cluster->max_ctas),
                                   .register_buffers = deck.cluster->register_buffers == "on"},
                                  mpi.watchdog());
  };
}

Machine open_machine(const Inputs& inputs, MpiSession& mpi) {
  const Deck& deck = inputs.deck();
  Communicator& world = mpi.world();
  Machine machine{.world = world,
                  .host = mpi.host(),
                  .threads = compute_threads(deck, world, mpi.host()),
                  .device = open_device(deck, mpi)};
  Communication& opened = machine.communication;
  collectively(world, [&] { opened.backend = choose_backend(deck, mpi, *machine.device); });
  const GroupMaker make = group_maker(deck, mpi, opened.backend);
  collectively(world, [&] { opened.groups.emplace(world, inputs.mesh, make); });
  take_free_memory(*machine.device, world);
  return machine;
}

MachineCosts costs_of_machine(const Inputs& inputs, Machine& machine) {
  const Deck& deck = inputs.deck();
  Communicator& world = machine.world;
  const std::optional<Profile> profile = obtain_profile(inputs, machine);
  MachineCosts known{.costs = costs_of(deck, inputs.mesh, profile),
                     .measured = profile.has_value(),
                     .rates = profile ? rates_of_rank(*profile, world.rank()) : std::nullopt};
  if (deck.cluster->emulates() && !known.costs) {
    collectively(world, [&] {
      fail_for_missing_rate(deck, inputs.mesh,
                            "cluster.emulate rests on it, or on cluster.profile with a file of "
                            "`hidup profile`");
    });
  }
  take_free_memory(*machine.device, world);  // the first NCCL messages took some
  known.memory = memory_of_classes(deck, all_gather_value(world, machine.device->memory()));
  return known;
}

}  // namespace hidup
