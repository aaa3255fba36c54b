#include "app/costs.h"

#include <fmt/format.h>

#include "core/file.h"
#include "cost/roofline.h"

namespace hidup {
namespace {

// The first key that predictions without a profile lack; empty: there is all of it.
std::string missing_rate(const Deck& deck, const Mesh& mesh) {
  if (!deck.cluster.device_flops) {
    return "cluster.device.flops";
  }
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (mesh[axis].size > 1 && !deck.cluster.mesh[axis].bandwidth) {
      return fmt::format("cluster.mesh[{}].bandwidth", axis);
    }
  }
  return "";
}

MachineRates rates_of(const Deck& deck, const Mesh& mesh) {
  constexpr double kFlopsPerByte = 16.0;
  const double flops = *deck.cluster.device_flops;
  MachineRates rates{
      .flops = flops,
      .memory_bandwidth = deck.cluster.memory_bandwidth.value_or(flops / kFlopsPerByte)};
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const MeshAxis& link = deck.cluster.mesh[axis];
    rates.links.push_back({link.bandwidth.value_or(0.0), link.latency.value_or(0.0)});
  }
  return rates;
}

bool published(const Deck& deck) {
  return deck.cluster.cost_model == "published";
}

}  // namespace

std::string read_profile_file(const std::string& path) {
  return read_text_file(path, "profile", 8 << 20);
}

std::optional<Profile> costs_of(const Deck& deck, const Mesh& mesh,
                                const std::optional<Profile>& measured) {
  const bool from_rates = published(deck) || !measured;
  if (from_rates && !missing_rate(deck, mesh).empty()) {
    return std::nullopt;
  }
  Profile costs = published(deck) ? published_profile(mesh, rates_of(deck, mesh))
                  : measured      ? *measured
                                  : roofline_profile(mesh, rates_of(deck, mesh));
  perturb(costs, deck.cluster.profile_noise, deck.train.seed);
  return costs;
}

Profile costs_without_ranks(const Deck& deck, const Mesh& mesh) {
  const std::string& file = deck.cluster.profile;
  std::optional<Profile> measured;
  if (!published(deck) && !file.empty() && file != "auto") {
    measured = parse_profile(read_profile_file(file), file);
    ProfileKey wanted = measured->key;
    wanted.mesh = mesh;
    const std::string mismatch = profile_mismatch(measured->key, wanted);
    if (!mismatch.empty()) {
      fail_at(deck, "cluster.profile",
              fmt::format("cluster.profile: {} does not fit: {}", file, mismatch));
    }
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
