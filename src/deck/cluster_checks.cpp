// Checks of the keys of a cluster deck with each other and with a number of ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/limits.h"
#include "core/text.h"
#include "deck/checks.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"

namespace hidup {
namespace {

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

void check_axis_names(const std::vector<MeshAxis>& mesh, const DeckChecks& checks) {
  constexpr size_t kLongestName = 40;
  for (size_t i = 0; i < mesh.size(); ++i) {
    const std::string key = fmt::format("cluster.mesh[{}].name", i);
    const std::string& name = mesh[i].name;
    if (!checks.usable(key)) {
      continue;
    }
    if (!is_identifier(name)) {
      checks.report(key, fmt::format("axis name \"{}\": expected letters, digits, _ and -, first "
                                     "a letter",
                                     shown(name)));
    } else if (name.size() > kLongestName) {
      checks.report(key, fmt::format("axis name \"{}\": expected at most {} characters, found {}",
                                     shown(name), kLongestName, name.size()));
    }
    const bool taken = std::any_of(mesh.begin(), mesh.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const MeshAxis& before) { return before.name == name; });
    if (taken) {
      checks.report(key, fmt::format("two axes are named {}", shown(name)));
    }
  }
}

// Returns the mesh as "node x gpu = 2 x auto".
std::string describe_mesh(const std::vector<MeshAxis>& mesh) {
  std::vector<std::string> names;
  std::vector<std::string> sizes;
  for (const MeshAxis& axis : mesh) {
    names.push_back(axis.name);
    sizes.push_back(axis.size ? fmt::format("{}", *axis.size) : "auto");
  }
  return fmt::format("{} = {}", fmt::join(names, " x "), fmt::join(sizes, " x "));
}

void check_axis_sizes(const std::vector<MeshAxis>& mesh, const DeckChecks& checks) {
  const MeshAxis* auto_axis = nullptr;
  int64_t ranks = 1;
  for (size_t i = 0; i < mesh.size(); ++i) {
    const std::string key = fmt::format("cluster.mesh[{}].size", i);
    if (!checks.usable(key)) {
      continue;
    }
    if (mesh[i].size) {
      ranks *= *mesh[i].size;
    } else if (auto_axis == nullptr) {
      auto_axis = &mesh[i];
    } else {
      checks.report(key, fmt::format("the axes {} and {} both have the size auto: only one may",
                                     auto_axis->name, mesh[i].name));
    }
    if (ranks > kMaxRanks) {
      checks.report(key, fmt::format("cluster.mesh: {} = {} ranks, more than {}",
                                     describe_mesh(mesh), ranks, kMaxRanks));
      return;
    }
  }
}

std::vector<Misfit> misfits(const ClusterDeck& cluster, const std::vector<int64_t>& sizes) {
  std::vector<Misfit> found;
  int64_t ranks = 1;
  for (const int64_t size : sizes) {
    ranks *= size;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t shared = cluster.mesh[i].shared;
    const int64_t others = ranks / sizes[i];
    if (others % shared != 0) {
      const std::string key = fmt::format("cluster.mesh[{}].shared", i);
      found.push_back({key, fmt::format("{} {}, but the other axes have {} rank(s): take a divisor "
                                        "of {}",
                                        key, shared, others, others)});
    }
    const int64_t per_host = cluster.mesh[i].per_host;
    if (sizes[i] % per_host != 0) {
      const std::string key = fmt::format("cluster.mesh[{}].per_host", i);
      found.push_back({key, fmt::format("{} {}, but the axis {} has {} rank(s): take a divisor of "
                                        "{}",
                                        key, per_host, cluster.mesh[i].name, sizes[i], sizes[i])});
    }
  }
  return found;
}

// Returns true where only a run can tell which ranks an item means.
bool needs_hosts(const DeviceClass& device) {
  return device.host != "auto" && !device.count;
}

void check_ranks_of_mesh(const ClusterDeck& cluster, const DeckChecks& checks) {
  std::vector<int64_t> sizes;
  double ranks = 1.0;
  for (size_t i = 0; i < cluster.mesh.size(); ++i) {
    if (!cluster.mesh[i].size || !checks.usable(fmt::format("cluster.mesh[{}].size", i))) {
      return;
    }
    sizes.push_back(*cluster.mesh[i].size);
    ranks *= static_cast<double>(sizes.back());
  }
  if (ranks > static_cast<double>(kMaxRanks)) {
    return;
  }
  std::vector<Misfit> found = misfits(cluster, sizes);
  if (usable(checks, "cluster.devices") && std::ranges::none_of(cluster.devices, needs_hosts)) {
    const DividedRanks divided = divide_ranks(cluster, static_cast<int64_t>(ranks));
    if (divided.misfit) {
      found.push_back(*divided.misfit);
    }
  }
  for (const Misfit& misfit : found) {
    if (checks.usable(misfit.key)) {
      checks.report(misfit.key, misfit.message);
    }
  }
}

// Checks axes with several ranks on one host.
void check_hosts(const std::vector<MeshAxis>& mesh, const DeckChecks& checks) {
  for (size_t i = 0; i < mesh.size(); ++i) {
    const auto key = [i](std::string_view name) {
      return fmt::format("cluster.mesh[{}].{}", i, name);
    };
    const std::string per_host = key("per_host");
    const std::string host_bandwidth = key("host_bandwidth");
    if (!checks.usable(per_host) || !checks.usable(host_bandwidth)) {
      continue;
    }
    if (mesh[i].per_host == 1) {
      if (mesh[i].host_bandwidth) {
        checks.report(host_bandwidth,
                      fmt::format("{} has no use without {}: expected the number of the axis's "
                                  "ranks on one host, more than 1",
                                  host_bandwidth, per_host));
      }
      continue;
    }
    if (!mesh[i].host_bandwidth) {
      checks.report(per_host, fmt::format("{} needs {}: expected the bandwidth of a host's link, "
                                          "such as 100Gbps",
                                          per_host, host_bandwidth));
    }
    if (checks.usable(key("shared")) && mesh[i].shared > 1) {
      checks.report(per_host, fmt::format("{} and {} do not go together: expected one of them, "
                                          "since a link is either shared by ranks of this axis or "
                                          "by those of the inner ones",
                                          per_host, key("shared")));
    }
    if (checks.usable(key("bandwidth_trace")) && !mesh[i].bandwidth_trace.empty()) {
      checks.report(per_host, fmt::format("{} and {} do not go together: expected one of them, "
                                          "since it would not be known which of the two links "
                                          "varies",
                                          per_host, key("bandwidth_trace")));
    }
  }
}

// Returns the problem of item `i` with an earlier one of the same precision: larger products must
// take longer, whatever share of the flops they reach.
std::optional<Misfit> clash(const ProductEfficiency& item, size_t i,
                            const ProductEfficiency& earlier) {
  const std::string key = fmt::format("cluster.device.efficiency[{}].size", i);
  const std::string products = fmt::format("products of precision {}", item.precision);
  if (!item.size || !earlier.size) {
    return Misfit{key, fmt::format("{}: two items are for {}, so both need a size", key, products)};
  }
  if (*item.size == *earlier.size) {
    return Misfit{key,
                  fmt::format("{}: two items are for {} and size {}", key, products, *item.size)};
  }
  const double ratio = static_cast<double>(*item.size) / static_cast<double>(*earlier.size);
  const double same_time = earlier.share * ratio * ratio * ratio;
  if ((ratio > 1.0) == (item.share < same_time)) {
    return std::nullopt;
  }
  const std::string share = fmt::format("cluster.device.efficiency[{}].share", i);
  return Misfit{share, fmt::format("{} {}, with which {} of size {} take less time than those of "
                                   "size {}: expected a share {} {:.3g}",
                                   share, item.share, products, std::max(*item.size, *earlier.size),
                                   std::min(*item.size, *earlier.size),
                                   ratio > 1.0 ? "below" : "above", same_time)};
}

void check_efficiency(const std::vector<ProductEfficiency>& items, const DeckChecks& checks) {
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::optional<Misfit> found =
          items[j].precision == items[i].precision ? clash(items[i], i, items[j]) : std::nullopt;
      if (found && checks.usable(found->key)) {
        return checks.report(found->key, found->message);
      }
    }
  }
}

// Checks links that vary in time.
void check_traces(const ClusterDeck& cluster, const DeckChecks& checks) {
  for (size_t i = 0; i < cluster.mesh.size(); ++i) {
    const std::string key = fmt::format("cluster.mesh[{}].bandwidth_trace", i);
    if (cluster.mesh[i].bandwidth_trace.empty() || !checks.usable(key)) {
      continue;
    }
    if (checks.usable("cluster.emulate") && cluster.emulate == "off") {
      checks.report(key, fmt::format("{} has no use with cluster.emulate off", key));
    }
    const std::string bandwidth = fmt::format("cluster.mesh[{}].bandwidth", i);
    if (checks.usable(bandwidth) && !cluster.mesh[i].bandwidth) {
      checks.report(key, fmt::format("{} needs a number as {}: predictions rest on that, and "
                                     "messages are faster or slower in proportion to it",
                                     key, bandwidth));
    }
  }
}

// Checks devices that vary in time.
void check_paces(const ClusterDeck& cluster, const DeckChecks& checks) {
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    const std::string key = fmt::format("cluster.devices[{}].pace_trace", i);
    if (!cluster.devices[i].pace_trace.empty() && usable(checks, key, "cluster.emulate") &&
        cluster.emulate == "off") {
      checks.report(key, fmt::format("{} has no use with cluster.emulate off", key));
    }
  }
}

void check_emulation(const ClusterDeck& cluster, const DeckChecks& checks) {
  if (!usable(checks, "cluster.emulate") || cluster.emulate == "off") {
    return;
  }
  const bool has_file = cluster.profile != "auto" && !cluster.profile.empty();
  if (usable(checks, "cluster.devices", "cluster.profile") && !cluster.devices.empty() &&
      has_file) {
    checks.report("cluster.devices",
                  "cluster.devices has no use beside the file of cluster.profile, whose times are "
                  "those of all ranks: remove one of them");
  }
}

void check_devices(const ClusterDeck& cluster, const DeckChecks& checks) {
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    const DeviceClass& device = cluster.devices[i];
    const std::string key = fmt::format("cluster.devices[{}].ranks", i);
    if (device.ranks != "auto" && checks.usable(key)) {
      if (!parse_ranks(device.ranks)) {
        checks.report(key, fmt::format("{}: expected ranks such as 0-7, or '0-7, 12', found {}",
                                       key, shown(device.ranks)));
      } else if (device.host != "auto" || device.count) {
        checks.report(key, fmt::format("{} says which ranks are meant: remove {}", key,
                                       device.count ? "count" : "host"));
      }
    }
  }
}

void check_mesh(const ClusterDeck& cluster, const DeckChecks& checks) {
  if (!usable(checks, "cluster.mesh")) {
    return;
  }
  if (cluster.mesh.empty()) {
    checks.report("cluster.mesh",
                  "cluster.mesh is empty: expected at least one axis, such as "
                  "{name: ranks, size: auto}");
  }
  check_axis_names(cluster.mesh, checks);
  check_axis_sizes(cluster.mesh, checks);
  check_ranks_of_mesh(cluster, checks);
  check_hosts(cluster.mesh, checks);
  check_traces(cluster, checks);
}

}  // namespace

void check_cluster(const ClusterDeck& cluster, const DeckChecks& checks) {
  check_mesh(cluster, checks);
  check_paces(cluster, checks);
  check_emulation(cluster, checks);
  if (usable(checks, "cluster.devices")) {
    check_devices(cluster, checks);
  }
  if (usable(checks, "cluster.device.efficiency")) {
    check_efficiency(cluster.efficiency, checks);
  }
}

std::vector<int64_t> check_ranks(const Deck& deck, int64_t ranks) {
  check(ranks >= 1, "{} ranks", ranks);
  const std::vector<MeshAxis>& axes = deck.cluster->mesh;
  int64_t known = 1;  // product of the sizes that are given
  bool has_auto = false;
  for (const MeshAxis& axis : axes) {
    known *= axis.size.value_or(1);
    has_auto = has_auto || !axis.size;
  }
  if (has_auto && ranks % known != 0) {
    fail_at(deck, "cluster.mesh",
            fmt::format("cluster.mesh: {}, but {} ranks are not a multiple of {}",
                        describe_mesh(axes), ranks, known));
  }
  if (!has_auto && ranks != known) {
    const std::string product = axes.size() > 1 ? fmt::format(" = {}", known) : "";
    fail_at(deck, "cluster.mesh",
            fmt::format("cluster.mesh: {}{} ranks, but there are {}", describe_mesh(axes), product,
                        ranks));
  }
  std::vector<int64_t> sizes(axes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = axes[i].size.value_or(ranks / known);
  }
  for (const Misfit& misfit : misfits(*deck.cluster, sizes)) {
    fail_at(deck, misfit.key, misfit.message);
  }
  if (const DividedRanks divided = divide_ranks(*deck.cluster, ranks); divided.misfit) {
    fail_at(deck, divided.misfit->key, divided.misfit->message);
  }
  return sizes;
}

}  // namespace hidup
