// hidup doctor: reports libraries, the places of ranks, and suspicious facts.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/costs.h"
#include "app/job.h"
#include "app/launch.h"
#include "app/machine.h"
#include "app/planning.h"
#include "comm/collective.h"
#include "comm/nccl_communicator.h"
#include "commands/checkup.h"
#include "commands/commands.h"
#include "commands/comparison.h"
#include "commands/doctor_run.h"
#include "core/results.h"
#include "core/text.h"
#include "core/units.h"
#include "core/version.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "deck/model_deck.h"
#include "device/device.h"
#include "io/resources.h"
#include "kernels/library.h"
#include "runtime/mesh_groups.h"
#include "runtime/pair_rates.h"
#include "runtime/rates.h"

namespace hidup {
namespace {

// Returns the version in the loaded file's name ("libx.so.0.7.0"), for lack of another one.
std::string version_of_file(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && line.find("/" + name + ".so") != std::string::npos) {
      const std::string file = std::filesystem::path(line.substr(path)).filename();
      const size_t end = file.find(".so.");
      return end == std::string::npos ? "" : file.substr(end + 4);
    }
  }
  return "";
}

// The libraries of builds for this kind of device, and those that builds of all kinds have.
struct Libraries {
  std::vector<LibraryVersion> own;
  std::vector<LibraryVersion> common;

  std::vector<LibraryVersion> all() const {
    std::vector<LibraryVersion> all = own;
    all.insert(all.end(), common.begin(), common.end());
    return all;
  }
};

Libraries libraries() {
  Libraries found{.own = device_libraries()};
  found.own.push_back(kernels::matmul_library());
  for (const LibraryVersion& library : nccl_libraries()) {
    found.own.push_back(library);
  }
  found.common = {mpi_library(),
                  hdf5_library(),
                  {"yaml-cpp", HIDUP_YAML_CPP_VERSION, version_of_file("libyaml-cpp")}};
  return found;
}

std::string text_of(const std::vector<LibraryVersion>& libraries) {
  std::string text;
  for (const LibraryVersion& library : libraries) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", library.name, library.loaded);
  }
  return text;
}

std::string program_text() {
  return fmt::format("hidup {} ({}{})", program_version(), git_commit(),
                     git_dirty() ? ", with changes" : "");
}

std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) {
      cores.push_back(core);
    }
  }
  return cores;
}

RankPlace own_place(MpiSession& mpi, const RunCheckup& run, const Libraries& loaded) {
  RankPlace place{.host = mpi.host(),
                  .cores = own_cores(),
                  .kind = device_kind(),
                  .common = program_text() + ", " + text_of(loaded.common),
                  .libraries = text_of(loaded.own)};
  place.physical_cores = count_physical_cores(place.cores);
  place.threads = compute_threads(run.deck, mpi.world(), mpi.host());
  const DeviceOptions options = run.has_cluster ? device_options(run.deck, mpi) : own_device(mpi);
  try {
    const std::unique_ptr<Device> device = make_device(options);
    place.device = device->description();
    place.memory = device->memory();
  } catch (const Error& error) {
    place.device_obstacle = error.what();
  }
  return place;
}

// Returns the places of all ranks, on rank 0.
std::vector<RankPlace> all_places(Communicator& world, const RankPlace& mine) {
  const std::vector<std::string> hosts = gather_texts(world, mine.host);
  const std::vector<std::string> devices = gather_texts(world, mine.device);
  const std::vector<std::string> obstacles = gather_texts(world, mine.device_obstacle);
  const std::vector<std::string> kinds = gather_texts(world, mine.kind);
  const std::vector<std::string> common = gather_texts(world, mine.common);
  const std::vector<std::string> libraries = gather_texts(world, mine.libraries);
  const std::vector<std::vector<std::byte>> cores =
      world.gather(std::as_bytes(std::span(mine.cores)));
  const std::vector<int64_t> memory = all_gather_value(world, mine.memory);
  const std::vector<int> physical = all_gather_value(world, mine.physical_cores);
  const std::vector<int> threads = all_gather_value(world, mine.threads);
  std::vector<RankPlace> places;
  for (size_t r = 0; r < hosts.size(); ++r) {
    RankPlace& place = places.emplace_back(RankPlace{.host = hosts[r],
                                                     .device = devices[r],
                                                     .device_obstacle = obstacles[r],
                                                     .memory = memory[r],
                                                     .cores = {},
                                                     .physical_cores = physical[r],
                                                     .threads = threads[r],
                                                     .kind = kinds[r],
                                                     .common = common[r],
                                                     .libraries = libraries[r]});
    place.cores.resize(cores[r].size() / sizeof(int));
    std::ranges::copy(cores[r], std::as_writable_bytes(std::span(place.cores)).begin());
  }
  return places;
}

void print_libraries(const std::vector<LibraryVersion>& all) {
  results::print("\n{:<14}  {:<10}  {}\n", "library", "compiled", "loaded");
  for (const LibraryVersion& library : all) {
    results::print("{:<14}  {:<10}  {}\n", library.name, library.compiled,
                   library.loaded.empty() ? "none" : library.loaded);
  }
}

void print_places(const std::vector<RankPlace>& places) {
  const auto width = [&](const char* title, auto text) {
    size_t widest = std::string_view(title).size();
    for (const RankPlace& place : places) {
      widest = std::max(widest, text(place).size());
    }
    return widest;
  };
  const auto device = [](const RankPlace& p) { return p.device.empty() ? "none" : p.device; };
  const size_t host_width = width("host", [](const RankPlace& p) { return p.host; });
  const size_t device_width = width("device", device);
  results::print("\n{:>4}  {:<{}}  {:<{}}  {:>10}  {:>7}  {}\n", "rank", "host", host_width,
                 "device", device_width, "memory", "threads", "cores");
  for (size_t r = 0; r < places.size(); ++r) {
    const RankPlace& place = places[r];
    results::print("{:>4}  {:<{}}  {:<{}}  {:>10}  {:>7}  {} ({})\n", r, place.host, host_width,
                   device(place), device_width, format_bytes(place.memory), place.threads,
                   place.cores.size(), format_numbers(place.cores));
  }
}

void print_arithmetic(const std::string& arithmetic) {
  if (!arithmetic.empty()) {
    results::print("\n{}\n", arithmetic);
  }
}

void print_environment() {
  results::print("\nenvironment of rank 0\n");
  for (const std::string& variable : run_environment()) {
    results::print("  {}\n", variable);
  }
}

void print_run(const std::vector<std::string>& facts) {
  if (!facts.empty()) {
    results::print("\nthe run\n");
  }
  for (const std::string& fact : facts) {
    results::print("  {}\n", fact);
  }
}

// Rates of all ranks and of the links between pairs.
struct Measured {
  std::vector<RankRates> rates;
  std::vector<RankPair> pairs;
  std::vector<double> links;  // bytes/s
};

// Collective.
Measured measure(const Deck& deck, bool has_cluster, MpiSession& mpi) {
  Communicator& world = mpi.world();
  std::unique_ptr<Device> device;
  collectively(world, [&] {
    device = make_device(has_cluster ? device_options(deck, mpi) : own_device(mpi));
  });
  std::string backend;
  collectively(world, [&] { backend = choose_backend(deck, mpi, *device); });
  const MeshGroups groups(world, {{"ranks", world.size()}}, group_maker(deck, mpi, backend));
  const std::string& precision = deck.model->precision;  // empty without a model deck
  const DType dtype = precision.empty() ? DType::f32 : element_type(precision);
  const DeviceRates mine =
      measure_own_rates(*device, world, compute_threads(deck, world, mpi.host()), {dtype});
  const std::vector<std::string> hosts = gather_texts(world, mpi.host());
  const std::vector<double> products = all_gather_value(world, mine.products.at(dtype));
  const std::vector<double> memory = all_gather_value(world, mine.memory);
  Measured measured{.pairs = pairs_of(world.size())};
  measured.links = measure_pairs(*device, world, groups.axis(0), measured.pairs);
  const std::vector<int64_t> classes = alike_devices(*deck.cluster, world.size());
  const bool fits = !divide_ranks(*deck.cluster, world.size()).misfit;
  const std::vector<double> rated =
      fits ? rated_flops_of_ranks(deck, world.size()) : std::vector<double>(classes.size(), 0.0);
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    measured.rates.push_back({.host = hosts[rank],
                              .device = classes[rank],
                              .products = products[rank],
                              .memory = memory[rank],
                              .rated = rated[rank]});
  }
  return measured;
}

void print_measured(const Measured& measured) {
  const auto link = [&](int64_t rank, bool across) {
    const double rate = median_link(measured.rates, measured.pairs, measured.links, rank, across);
    return rate == 0.0 ? std::string("none") : fmt::format("{:.3g} GB/s", 1e-9 * rate);
  };
  results::print("\n{:>4}  {:>13}  {:>9}  {:>14}  {:>18}\n", "rank", "products", "memory",
                 "links in host", "links across hosts");
  for (int64_t rank = 0; rank < std::ssize(measured.rates); ++rank) {
    const RankRates& rates = measured.rates[static_cast<size_t>(rank)];
    results::print("{:>4}  {:>13}  {:>9}  {:>14}  {:>18}\n", rank,
                   fmt::format("{:.3g} Gflop/s", 1e-9 * rates.products),
                   fmt::format("{:.3g} GB/s", 1e-9 * rates.memory), link(rank, false),
                   link(rank, true));
  }
}

// Prints nothing where all ranks are of one class.
void print_classes(const std::vector<ClassRates>& classes) {
  if (classes.size() < 2) {
    return;
  }
  results::print("\n{:<30}  {:>14}  {:>13}  {:>13}  {:>12}  {:>9}\n", "class of devices",
                 "least products", "median", "rated", "least memory", "median");
  const auto flops = [](double rate) { return fmt::format("{:.3g} Gflop/s", 1e-9 * rate); };
  const auto bytes = [](double rate) { return fmt::format("{:.3g} GB/s", 1e-9 * rate); };
  for (const ClassRates& each : classes) {
    results::print("{:<30}  {:>14}  {:>13}  {:>13}  {:>12}  {:>9}\n", format_ranks(each.ranks),
                   flops(each.least_products), flops(each.median_products),
                   each.rated > 0.0 ? flops(each.rated) : "unknown", bytes(each.least_memory),
                   bytes(each.median_memory));
  }
}

void print_findings(const std::vector<std::string>& findings) {
  results::print("\n{}\n", findings.empty() ? "nothing looks wrong" : "what looks wrong");
  for (const std::string& finding : findings) {
    results::print("  {}\n", finding);
  }
}

}  // namespace

int doctor(const DoctorOptions& options, int* argc, char*** argv) {
  const auto check = [&](MpiSession& mpi) {
    const Libraries loaded = libraries();
    const RunCheckup run = check_run(options.run, mpi);
    Communicator& world = mpi.world();  // with the ranks in the run's order
    const std::string arithmetic = text_of_ranks(world, choose_arithmetic(run.deck, world));
    const std::vector<RankPlace> places = all_places(world, own_place(mpi, run, loaded));
    const std::string kinds = text_of_ranks(world, device_kind());
    Measured measured;
    if (options.compare) {
      measured = measure(run.deck, run.has_cluster, mpi);
    }
    if (world.rank() != 0) {
      return ExitCode::done;
    }
    results::print("{}, built for cluster.device.kind {}\n", program_text(), kinds);
    print_libraries(loaded.all());
    print_arithmetic(arithmetic);
    print_places(places);
    print_run(run.facts);
    print_environment();
    if (options.compare) {
      print_measured(measured);
      print_classes(rates_of_classes(measured.rates));
    }
    std::vector<std::string> findings = run.findings;
    std::ranges::copy(what_is_slow(measured.rates, measured.pairs, measured.links),
                      std::back_inserter(findings));
    std::ranges::copy(what_looks_wrong(places, loaded.all()), std::back_inserter(findings));
    print_findings(findings);
    return ExitCode::done;
  };
  return run_job(argc, argv, check, Versions::any);
}

}  // namespace hidup
