#include "cost/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "core/random.h"

namespace hidup {
namespace {

constexpr std::array kCollectives = {Opcode::all_reduce, Opcode::all_gather, Opcode::reduce_scatter,
                                     Opcode::all_to_all, Opcode::broadcast,  Opcode::move};

constexpr double kLargestMessage = 1e12;  // bytes; longer messages take time in proportion

// Interpolation on logarithmic scales between sizes this close meets a straight line within 0.4 %.
constexpr double kSpacing = 1.4142135623730951;

// Returns a time in proportion to bytes and flops.
OperationTime at_rate(Opcode opcode, double rate, DType dtype = DType::f32) {
  return {.opcode = opcode,
          .work = {.flops = rate, .bytes = rate, .sizes = {}, .dtype = dtype},
          .seconds = 1.0};
}

CollectiveTimes straight_line(Opcode opcode, size_t axis, double latency_s, double bandwidth) {
  CollectiveTimes times{
      .opcode = opcode, .axis = axis, .latency_s = latency_s, .bandwidth = bandwidth};
  for (double bytes = 1.0; bytes < kLargestMessage; bytes *= kSpacing) {
    const double seconds = latency_s + bytes / bandwidth;
    times.table.push_back({.bytes = bytes, .alone_s = seconds, .beside_s = seconds});
  }
  return times;
}

// Returns true where ranks of the axis reach each other over a host's link.
bool passes_hosts(const LinkRates& link, int64_t ranks) {
  return link.per_host > 1 && link.per_host < ranks;
}

// Returns the collective's bytes per second, without latency.
double pace_of(Opcode opcode, const LinkRates& link, int64_t ranks) {
  const double sent = volume_of(opcode, ranks).bytes;
  if (!passes_hosts(link, ranks)) {
    return link.bandwidth / sent;
  }
  const auto all = static_cast<double>(ranks);
  const auto here = static_cast<double>(link.per_host);
  switch (opcode) {
    case Opcode::all_to_all:
      return std::min(link.bandwidth / ((here - 1.0) / all),
                      link.host_bandwidth / (here * (all - here) / all));
    case Opcode::move:
      return std::min(link.bandwidth / sent, link.host_bandwidth / (here * sent));
    default:
      return std::min(link.bandwidth, link.host_bandwidth) / sent;
  }
}

Profile empty_profile(const Mesh& mesh, const MachineRates& rates, const char* device) {
  check(rates.flops > 0.0 && rates.links.size() == mesh.size(), "rates that make no sense");
  Profile profile;
  profile.key.device = device;
  profile.key.mesh = mesh;
  profile.operations.push_back(at_rate(Opcode::matmul, rates.flops));
  if (rates.flops_16bit > 0.0) {
    profile.operations.push_back(at_rate(Opcode::matmul, rates.flops_16bit, DType::bf16));
    profile.operations.push_back(at_rate(Opcode::matmul, rates.flops_16bit, DType::f16));
  }
  return profile;
}

}  // namespace

MessageVolume volume_of(Opcode opcode, int64_t ranks) {
  const double part = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const double depth = std::ceil(std::log2(static_cast<double>(ranks)));
  switch (opcode) {
    case Opcode::all_reduce:
      return {2.0 * part, 2.0 * depth};
    case Opcode::broadcast:
      return {1.0, depth};
    case Opcode::move:
      return {1.0, 1.0};
    default:
      return {part, depth};
  }
}

Profile roofline_profile(const Mesh& mesh, const MachineRates& rates) {
  Profile profile = empty_profile(mesh, rates, "the rates of the cluster deck, not measured");
  profile.efficiency = rates.efficiency;
  profile.operations.push_back(at_rate(Opcode::add, rates.memory_bandwidth));
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const LinkRates& link = rates.links[axis];
    // Packing copies read and write every byte.
    profile.collectives.push_back(
        straight_line(Opcode::slice, axis, 0.0, rates.memory_bandwidth / 2.0));
    if (mesh[axis].size == 1) {
      continue;
    }
    for (const Opcode opcode : kCollectives) {
      const double depth = volume_of(opcode, mesh[axis].size).depth;
      profile.collectives.push_back(straight_line(opcode, axis, depth * link.latency_s,
                                                  pace_of(opcode, link, mesh[axis].size)));
    }
  }
  return profile;
}

Profile published_profile(const Mesh& mesh, const MachineRates& rates) {
  constexpr double kNothing = 1e30;  // bytes/s
  constexpr double kLatency = 1e-4;
  Profile profile = empty_profile(mesh, rates, "HiDup's published cost model");
  profile.operations.push_back(at_rate(Opcode::add, kNothing));
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const int64_t ranks = mesh[axis].size;
    if (ranks == 1) {
      continue;
    }
    const LinkRates& link = rates.links[axis];
    const double bandwidth =
        passes_hosts(link, ranks) ? std::min(link.bandwidth, link.host_bandwidth) : link.bandwidth;
    for (const Opcode opcode : kCollectives) {
      profile.collectives.push_back(straight_line(opcode, axis, kLatency, bandwidth));
    }
  }
  return profile;
}

void perturb(Profile& profile, double noise, uint64_t seed) {
  const RandomStream random = random_stream(seed, "cluster.profile_noise");
  uint64_t drawn = 0;
  const auto factor = [&] { return 1.0 + noise * (2.0 * random.uniform(drawn++) - 1.0); };
  for (OperationTime& time : profile.operations) {
    const double noise_of_time = factor();
    time.seconds *= noise_of_time;
    for (double& seconds : time.by_class) {
      seconds *= noise_of_time;
    }
  }
  for (CollectiveTimes& times : profile.collectives) {
    const double all = factor();
    times.latency_s *= all;
    times.bandwidth /= all;
    for (MessageTime& time : times.table) {
      time.alone_s *= all;
      time.beside_s *= all;
    }
  }
}

}  // namespace hidup
