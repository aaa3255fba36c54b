#include "app/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "core/file.h"
#include "cost/changed_links.h"
#include "cost/roofline.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"

namespace hidup {
namespace {

// Returns the first missing key for predictions without a profile; empty where the deck has all.
std::string missing_rate(const Deck& deck, const Mesh& mesh) {
  const ClusterDeck& cluster = *deck.cluster;
  for (size_t item = 0; item < cluster.devices.size() && !cluster.device_flops; ++item) {
    if (!cluster.devices[item].flops) {
      return fmt::format("cluster.devices[{}].flops", item);
    }
  }
  if (!cluster.device_flops && cluster.devices.empty()) {
    return "cluster.device.flops";
  }
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (mesh[axis].size > 1 && !cluster.mesh[axis].bandwidth) {
      return fmt::format("cluster.mesh[{}].bandwidth", axis);
    }
  }
  return "";
}

// The compute and memory rates of a rank.
struct Pace {
  double flops;
  double flops_16bit;
  double memory_bandwidth;

  bool operator==(const Pace&) const = default;
};

Pace pace_of(double flops, const std::optional<double>& flops_16bit,
             const std::optional<double>& memory_bandwidth) {
  constexpr double kFlopsPerByte = 16.0;
  return {flops, flops_16bit.value_or(flops), memory_bandwidth.value_or(flops / kFlopsPerByte)};
}

// Returns the pace of every class of devices. The deck has all rates.
std::vector<Pace> paces_of(const ClusterDeck& cluster) {
  std::vector<Pace> paces;
  for (const DeviceClass& device : device_classes(cluster)) {
    paces.push_back(pace_of(*device.flops, device.flops_16bit, device.memory_bandwidth));
  }
  return paces;
}

Pace slowest_pace(const ClusterDeck& cluster) {
  const std::vector<Pace> paces = paces_of(cluster);
  const auto least = [&](double Pace::*rate) { return std::ranges::min(paces, {}, rate).*rate; };
  return {least(&Pace::flops), least(&Pace::flops_16bit), least(&Pace::memory_bandwidth)};
}

// The distinct paces of the ranks, and the index of each rank's pace.
struct Classes {
  std::vector<Pace> paces;
  std::vector<size_t> class_of_rank;
};

Classes classes_of(const ClusterDeck& cluster, int64_t ranks) {
  const std::vector<Pace> of_items = paces_of(cluster);
  Classes classes;
  for (const size_t item : classes_of_ranks(cluster, ranks)) {
    const auto known = std::ranges::find(classes.paces, of_items[item]);
    classes.class_of_rank.push_back(static_cast<size_t>(known - classes.paces.begin()));
    if (known == classes.paces.end()) {
      classes.paces.push_back(of_items[item]);
    }
  }
  return classes;
}

Pace mean_pace(const ClusterDeck& cluster, int64_t ranks) {
  const std::vector<Pace> paces = paces_of(cluster);
  Pace sum{};
  for (const size_t item : classes_of_ranks(cluster, ranks)) {
    sum.flops += paces[item].flops;
    sum.flops_16bit += paces[item].flops_16bit;
    sum.memory_bandwidth += paces[item].memory_bandwidth;
  }
  const auto all = static_cast<double>(ranks);
  return {sum.flops / all, sum.flops_16bit / all, sum.memory_bandwidth / all};
}

// Returns true for costs that do not come from the deck's rates.
bool is_measured(const Profile& costs) {
  return !costs.key.build.empty();
}

// Returns true where devices of several classes were measured on as many ranks as the mesh has.
bool has_classes(const Profile& costs, const Mesh& mesh) {
  return !costs.key.classes.empty() && std::ssize(costs.key.classes) == ranks_of(mesh);
}

RankCosts costs_of_classes(const Profile& costs) {
  std::vector<CostModel> classes;
  std::vector<std::string> names;
  const int64_t count = std::ranges::max(costs.key.classes) + 1;
  for (int64_t number = 0; number < count; ++number) {
    classes.emplace_back(of_class(costs, static_cast<size_t>(number)));
    names.push_back(fmt::format("class {}", number));
  }
  return {std::move(classes),
          {costs.key.classes.begin(), costs.key.classes.end()},
          std::move(names),
          CostModel(costs)};
}

bool published(const Deck& deck) {
  return deck.cluster->cost_model == "published";
}

// Returns the items of cluster.device.efficiency for products of a type: those of its precision,
// else those of the other 16-bit precision, else those of any.
std::vector<ShareOfRate> shares_of(const std::vector<ProductEfficiency>& items, DType dtype) {
  const std::vector<std::string_view> names =
      dtype == DType::f32    ? std::vector<std::string_view>{"fp32", "any"}
      : dtype == DType::bf16 ? std::vector<std::string_view>{"bf16", "fp16", "any"}
                             : std::vector<std::string_view>{"fp16", "bf16", "any"};
  std::vector<ShareOfRate> shares;
  for (size_t n = 0; n < names.size() && shares.empty(); ++n) {
    for (const ProductEfficiency& item : items) {
      if (item.precision == names[n]) {
        const auto size = static_cast<double>(item.size.value_or(1));
        shares.push_back({.flops = 2.0 * size * size * size, .share = item.share});
      }
    }
  }
  std::ranges::sort(shares, {}, &ShareOfRate::flops);
  return shares;
}

// Returns true where cluster.comm.backend is nccl, or auto resolves to it on any machine.
bool has_nccl(const Deck& deck) {
  const std::string& kind = deck.cluster->device_kind;
  const std::string& backend = deck.cluster->comm_backend;
  return kind == "cuda" ? backend != "mpi" : kind == "auto" && backend == "nccl";
}

// Returns a profile with the deck's noise, which is the same for every pace.
Profile profile_of_rates(const Deck& deck, const Mesh& mesh, const Pace& pace) {
  const ClusterDeck& cluster = *deck.cluster;
  MachineRates rates{.flops = pace.flops,
                     .flops_16bit = pace.flops_16bit == pace.flops ? 0.0 : pace.flops_16bit,
                     .memory_bandwidth = pace.memory_bandwidth};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    if (std::vector<ShareOfRate> shares = shares_of(cluster.efficiency, dtype); !shares.empty()) {
      rates.efficiency[dtype] = std::move(shares);
    }
  }
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const MeshAxis& link = axis_of(*deck.cluster, mesh[axis].name);
    rates.links.push_back(
        {.bandwidth = link.bandwidth.value_or(0.0) / static_cast<double>(link.shared),
         .latency_s = link.latency.value_or(0.0),
         .per_host = link.per_host,
         .host_bandwidth = link.host_bandwidth.value_or(0.0)});
  }
  Profile costs = published(deck) ? published_profile(mesh, rates) : roofline_profile(mesh, rates);
  perturb(costs, deck.cluster->profile_noise, deck.train->seed);
  return costs;
}

}  // namespace

std::string read_profile_file(const std::string& path) {
  return read_text_file(path, "profile", 8 << 20);
}

std::optional<Profile> costs_of(const Deck& deck, const Mesh& mesh,
                                const std::optional<Profile>& measured) {
  std::optional<Profile> costs;
  if (!published(deck) && measured) {
    costs = measured;
    perturb(*costs, deck.cluster->profile_noise, deck.train->seed);
  } else if (missing_rate(deck, mesh).empty()) {
    costs = profile_of_rates(deck, mesh, slowest_pace(*deck.cluster));
  }
  if (costs) {
    costs->rings_use_all_links = has_nccl(deck);
  }
  return costs;
}

std::vector<double> rated_flops_of_ranks(const Deck& deck, int64_t ranks) {
  const bool in_16_bits = deck.model->precision != "fp32";
  const std::vector<DeviceClass> devices = device_classes(*deck.cluster);
  std::vector<double> flops;
  for (const size_t item : classes_of_ranks(*deck.cluster, ranks)) {
    const DeviceClass& device = devices[item];
    flops.push_back(in_16_bits && device.flops_16bit ? *device.flops_16bit
                                                     : device.flops.value_or(0.0));
  }
  return flops;
}

std::vector<double> rated_paces(const Deck& deck, const Mesh& mesh) {
  const std::vector<double> flops = rated_flops_of_ranks(deck, ranks_of(mesh));
  return std::ranges::count(flops, 0.0) > 0 ? std::vector<double>() : flops;
}

std::vector<double> paces_of_ranks(const Deck& deck, const Mesh& mesh, const Profile& costs) {
  return has_classes(costs, mesh) ? measured_paces(costs) : rated_paces(deck, mesh);
}

Mesh with_paces(Mesh mesh, const std::vector<double>& of_ranks) {
  for (size_t axis = 0; axis < mesh.size() && !of_ranks.empty(); ++axis) {
    std::vector<double> paces(static_cast<size_t>(mesh[axis].size),
                              std::numeric_limits<double>::infinity());
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      double& pace =
          paces.at(static_cast<size_t>(coordinate_of(mesh, static_cast<int64_t>(rank), axis)));
      pace = std::min(pace, of_ranks[rank]);
    }
    const bool differ = std::ranges::adjacent_find(paces, std::not_equal_to<>()) != paces.end();
    mesh[axis].paces = differ ? std::move(paces) : std::vector<double>();
  }
  return mesh;
}

Mesh with_measured_paces(Mesh mesh, const Profile& costs) {
  return has_classes(costs, mesh) ? with_paces(std::move(mesh), measured_paces(costs)) : mesh;
}

double rated_flops(const Deck& deck, int64_t ranks) {
  const std::vector<double> flops = rated_flops_of_ranks(deck, ranks);
  return std::reduce(flops.begin(), flops.end());
}

Deck with_twice_the_bandwidth(Deck deck, const std::string& axis) {
  for (MeshAxis& link : deck.cluster->mesh) {
    const double factor = link.name == axis ? 2.0 : 1.0;
    for (std::optional<double>* bandwidth : {&link.bandwidth, &link.host_bandwidth}) {
      if (*bandwidth) {
        **bandwidth *= factor;
      }
    }
  }
  return deck;
}

std::optional<Profile> changed_costs(const Deck& deck, const Profile& costs, const Mesh& mesh,
                                     std::optional<size_t> twice_as_fast) {
  constexpr double kTwice = 2.0;
  if (!is_measured(costs)) {
    return costs_of(
        twice_as_fast ? with_twice_the_bandwidth(deck, mesh[*twice_as_fast].name) : deck, mesh,
        std::nullopt);
  }
  Profile changed = costs;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const int64_t measured = costs.key.mesh.at(axis).size;
    if (mesh[axis].size == measured) {
      continue;
    }
    if (measured == 1) {
      return std::nullopt;
    }
    changed = with_ranks(std::move(changed), axis, mesh[axis].size);
  }
  return twice_as_fast ? with_bandwidth(std::move(changed), *twice_as_fast, kTwice) : changed;
}

RankCosts rank_costs(const Deck& deck, const Mesh& mesh, const Profile& costs) {
  if (has_classes(costs, mesh)) {
    return costs_of_classes(costs);
  }
  if (deck.cluster->devices.empty() || is_measured(costs)) {
    return CostModel(costs);
  }
  auto [paces, class_of_rank] = classes_of(*deck.cluster, ranks_of(mesh));
  if (paces.size() == 1) {
    return CostModel(costs);
  }
  std::vector<CostModel> classes;
  std::vector<std::string> names;
  for (const Pace& pace : paces) {
    Profile of_class = profile_of_rates(deck, mesh, pace);
    of_class.rings_use_all_links = costs.rings_use_all_links;
    classes.emplace_back(of_class);
    const double flops = deck.model->precision == "fp32" ? pace.flops : pace.flops_16bit;
    names.push_back(
        fmt::format("{:.4g} TFLOPS and {:.4g} GB/s", flops * 1e-12, pace.memory_bandwidth * 1e-9));
  }
  return {std::move(classes), std::move(class_of_rank), std::move(names), CostModel(costs)};
}

Profile balanced_costs(const Deck& deck, const Mesh& mesh, const Profile& costs) {
  if (has_classes(costs, mesh)) {
    return balanced(costs);
  }
  const bool alike = std::ranges::all_of(mesh, [](const Axis& axis) { return axis.paces.empty(); });
  if (alike || is_measured(costs)) {
    return costs;
  }
  Profile balanced = profile_of_rates(deck, mesh, mean_pace(*deck.cluster, ranks_of(mesh)));
  balanced.rings_use_all_links = costs.rings_use_all_links;
  return balanced;
}

std::vector<BandwidthTrace> paces_in_time(const Deck& deck, int64_t ranks) {
  constexpr double kNominal = 1e9;  // a trace has whole numbers
  const std::vector<DeviceClass> devices = device_classes(*deck.cluster);
  std::vector<BandwidthTrace> paces;
  bool varies = false;
  for (const size_t item : classes_of_ranks(*deck.cluster, ranks)) {
    std::vector<BandwidthTrace::Phase> phases;
    for (const TracePhase& phase : devices[item].pace_trace) {
      phases.push_back({phase.for_s, kNominal * phase.rate});
    }
    varies = varies || !phases.empty();
    paces.push_back(phases.empty() ? BandwidthTrace() : BandwidthTrace(kNominal, phases));
  }
  return varies ? paces : std::vector<BandwidthTrace>();
}

std::vector<BandwidthTrace> links_in_time(const Deck& deck, const Mesh& mesh) {
  std::vector<BandwidthTrace> links;
  bool varies = false;
  for (const Axis& along : mesh) {
    const MeshAxis& axis = axis_of(*deck.cluster, along.name);
    std::vector<BandwidthTrace::Phase> phases;
    for (const TracePhase& phase : axis.bandwidth_trace) {
      phases.push_back({phase.for_s, phase.rate});
    }
    varies = varies || !phases.empty();
    links.push_back(phases.empty() ? BandwidthTrace() : BandwidthTrace(*axis.bandwidth, phases));
  }
  return varies ? links : std::vector<BandwidthTrace>();
}

Profile profile_of_another_machine(const Deck& deck, const Mesh& mesh, const std::string& text) {
  const std::string& file = deck.cluster->profile;
  Profile measured = parse_profile(text, file);
  ProfileKey wanted = measured.key;
  wanted.mesh = mesh;
  const std::string mismatch = profile_mismatch(measured.key, wanted);
  if (!mismatch.empty()) {
    fail_at(deck, "cluster.profile",
            fmt::format("cluster.profile: {} does not fit: {}", file, mismatch));
  }
  return measured;
}

Profile costs_without_ranks(const Deck& deck, const Mesh& mesh) {
  const std::string& file = deck.cluster->profile;
  std::optional<Profile> measured;
  if (!published(deck) && !file.empty() && file != "auto") {
    measured = profile_of_another_machine(deck, mesh, read_profile_file(file));
  }
  std::optional<Profile> costs = costs_of(deck, mesh, measured);
  if (!costs) {
    fail_for_missing_rate(deck, mesh,
                          "a prediction rests on it, or on cluster.profile with a file of `hidup "
                          "profile`");
  }
  return *std::move(costs);
}

void fail_for_missing_rate(const Deck& deck, const Mesh& mesh, const std::string& reason) {
  const std::string missing = missing_rate(deck, mesh);
  fail_at(deck, missing, fmt::format("{} is missing: {}", missing, reason));
}

}  // namespace hidup
