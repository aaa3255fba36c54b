#include "app/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/costs.h"
#include "app/planning.h"
#include "app/run_search.h"
#include "comm/collective.h"
#include "comm/nccl_communicator.h"
#include "core/check.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/results.h"
#include "core/text.h"
#include "core/units.h"
#include "cost/cost_model.h"
#include "deck/cluster_deck.h"
#include "deck/model_deck.h"
#include "device/device.h"
#include "kernels/arithmetic.h"
#include "kernels/products.h"
#include "program/lower.h"
#include "program/print.h"
#include "program/verify.h"
#include "sharding/read_strategy.h"

namespace hidup {

Decks load_decks(const std::string& model, const std::string& cluster,
                 const std::vector<std::string>& overrides, Communicator& world) {
  Decks decks;
  collectively(world, [&] {
    if (world.rank() == 0) {
      decks.model = model.empty() ? DeckSource{} : read_deck_file(model);
      decks.cluster = cluster.empty() ? DeckSource{} : read_deck_file(cluster);
    }
  });
  for (DeckSource* source : {&decks.model, &decks.cluster}) {
    for (std::string* text : {&source->name, &source->text, &source->folder}) {
      *text = world.broadcast(*text);
    }
  }
  collectively(world, [&] {
    decks.deck = parse_decks(model.empty() ? nullptr : &decks.model,
                             cluster.empty() ? nullptr : &decks.cluster, overrides, world.size());
    decks.graph = world.rank() == 0 ? graph_text(decks.deck) : "";
  });
  decks.graph = world.broadcast(decks.graph);
  return decks;
}

Dataset load_data(Deck& deck, Communicator& world, const std::vector<std::string>& vocabulary) {
  Dataset data;
  collectively(world, [&] { data = open_data(deck, vocabulary); });
  check_same_data(world, data);
  deck.model->vocab = data.vocab;
  return data;
}

DeviceOptions own_device(MpiSession& mpi) {
  DeviceOptions options{.local_rank = mpi.local_rank()};
  const uint64_t mine = hash_of(fmt::format("{} on {}", device_place(options), mpi.host()));
  const std::vector<uint64_t> places = all_gather_value(mpi.world(), mine);
  options.sharing = static_cast<int>(std::ranges::count(places, mine));
  return options;
}

namespace {

// What the deck says of the device is what is emulated, and CPUs compute.
std::string kind_that_computes(const Deck& deck) {
  return emulates(deck) ? "cpu" : deck.cluster->device_kind;
}

}  // namespace

DeviceOptions device_options(const Deck& deck, MpiSession& mpi) {
  DeviceOptions options = own_device(mpi);
  options.kind = kind_that_computes(deck);
  options.memory = deck.cluster->device_memory.value_or(0);
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
    if (emulates(deck) && device_kind() != "cpu") {
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

namespace {

// The ranks that use each GPU, by where it is.
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

}  // namespace

std::string choose_backend(const Deck& deck, MpiSession& mpi, const Device& device) {
  if (emulates(deck)) {
    log::info("collectives: mpi, in emulated time");
    return "mpi";
  }
  Communicator& world = mpi.world();
  const std::string& wanted = deck.cluster->comm_backend;
  if (wanted == "nccl" && !has_nccl()) {
    fail_at(deck, "cluster.comm.backend",
            fmt::format("cluster.comm.backend is nccl, but this binary was built for {} ranks, "
                        "without NCCL",
                        device_kind()),
            ExitCode::unavailable);
  }
  std::string shared;
  if (has_nccl() && wanted != "mpi") {
    const std::string mine = fmt::format("{} on {}", device.description(), mpi.host());
    shared = world.broadcast(shared_gpu(gather_texts(world, mine)));
  }
  if (wanted == "nccl" && !shared.empty()) {
    fail_at(deck, "cluster.comm.backend",
            fmt::format("cluster.comm.backend is nccl, but {}, which NCCL refuses: start a rank "
                        "per GPU, or take mpi",
                        shared),
            ExitCode::unavailable);
  }
  const bool takes_nccl = has_nccl() && wanted != "mpi" && shared.empty();
  log::info("collectives: {}", takes_nccl       ? "nccl"
                               : shared.empty() ? "mpi"
                                                : "mpi, because " + shared);
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

namespace {

void open_nccl(const ClusterDeck& cluster, const Mesh& mesh, MpiSession& mpi,
               Communication& opened) {
  Communicator& world = mpi.world();
  const NcclOptions options{.max_ctas = static_cast<int>(cluster.max_ctas),
                            .register_buffers = cluster.register_buffers == "on"};
  collectively(world, [&] {
    opened.groups.emplace(world, mesh,
                          [&](std::unique_ptr<Communicator> group, const std::string& axis) {
                            return make_nccl_communicator(std::move(group), axis, world.rank(),
                                                          options, mpi.watchdog());
                          });
  });
}

}  // namespace

void open_communication(const Deck& deck, const Mesh& mesh, MpiSession& mpi, Device& device,
                        Communication& opened) {
  Communicator& world = mpi.world();
  collectively(world, [&] { opened.backend = choose_backend(deck, mpi, device); });
  if (opened.backend == "nccl") {
    open_nccl(*deck.cluster, mesh, mpi, opened);
  } else {
    opened.groups.emplace(world, mesh);
  }
  take_free_memory(device, world);
}

void take_free_memory(Device& device, Communicator& world) {
  world.barrier();
  collectively(world, [&] { device.take_free_memory(); });
}

namespace {

LoadedStrategy search(Deck deck, const Graph& graph, const Mesh& mesh, const SearchBasis& basis) {
  if (!basis.costs) {
    fail_for_missing_rate(deck, mesh,
                          "--strategy search rests on it, or on cluster.profile; or name a "
                          "strategy");
  }
  deck.cluster->device_memory = basis.memory;
  const double began = monotonic_seconds();
  SearchOptions options = search_options(deck, graph, mesh, basis.hints);
  options.baselines = false;
  SearchOutcome found = search_for(deck, graph, mesh, *basis.costs, options);
  const double seconds = monotonic_seconds() - began;
  log::info("search: {} microbatch(es), {} predicted, in {}", found.step.strategy.microbatches,
            format_seconds(found.step.seconds()), format_seconds(seconds));
  return {std::move(found.step.strategy), seconds};
}

}  // namespace

LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const SearchBasis& basis, Communicator& world) {
  LoadedStrategy loaded;
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) {
      loaded = choice == kSearch
                   ? search(deck, graph, mesh, basis)
                   : LoadedStrategy{choose_strategy(choice, deck, graph, mesh, basis.costs)};
      text = print_strategy(graph, loaded.strategy);
    }
  });
  text = world.broadcast(text);
  Strategy& strategy = loaded.strategy;
  collectively(world, [&] { strategy = parse_strategy(graph, mesh, text, choice); });
  const std::vector<uint64_t> hashes = all_gather_value(world, strategy_hash(graph, strategy));
  collectively(world, [&] {
    check(std::ranges::count(hashes, hashes[0]) == world.size(),
          "the ranks have different strategies");
  });
  return loaded;
}

namespace {

void check_agreement(const Program& program, Communicator& world) {
  const std::vector<std::string> all = gather_texts(world, print_collectives(program));
  collectively(world, [&] { verify_ranks_agree(all); });
}

}  // namespace

Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world, bool fuse) {
  LoweringOptions options = lowering_options(deck);
  options.fuse = fuse;
  Program program = lower(graph, strategy, options);
  check_agreement(program, world);
  return program;
}

Program make_forward_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                             Communicator& world) {
  Program program = lower_forward(graph, strategy, lowering_options(deck));
  check_agreement(program, world);
  return program;
}

namespace {

constexpr double kEndAfterFailure = 5.0;  // seconds: all ranks are at the same place

}  // namespace

int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work) {
  std::optional<MpiSession> mpi;
  try {
    mpi.emplace(argc, argv);
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.message.empty()) {  // another rank says it
      return static_cast<int>(failure.code);
    }
    abort_all_ranks(failure.code, failure.message);
  }
  try {
    const ExitCode code = work(*mpi);
    collectively(mpi->world(), results::finish);
    return static_cast<int>(code);
  } catch (const CollectiveError& error) {
    if (*error.what() != '\0') {
      log::error(error.what());
    }
    mpi->end_within(kEndAfterFailure);
    return static_cast<int>(error.code());
  }
}

}  // namespace hidup
