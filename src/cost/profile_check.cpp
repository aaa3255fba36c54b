#include "cost/profile_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "core/units.h"

namespace hidup {
namespace {

// Limits far beyond any machine, and beyond any pause within a step.
constexpr double kMostFlops = 1e17;  // flop/s of a rank
constexpr double kMostBytes = 1e15;  // bytes/s of a rank's caches
constexpr double kLongest = 3600.0;  // seconds of one operation or message

bool possible_time(double seconds) {
  return std::isfinite(seconds) && seconds >= 0.0 && seconds <= kLongest;
}

std::string implausible_operation(const OperationTime& time) {
  const std::string_view name = name_of(time.opcode);
  if (!possible_time(time.seconds)) {
    return fmt::format("{} in {:.3g} s", name, time.seconds);
  }
  for (const auto& [amount, most, unit] : {std::tuple(time.work.flops, kMostFlops, "flop/s"),
                                           std::tuple(time.work.bytes, kMostBytes, "B/s")}) {
    if (!std::isfinite(amount) || (time.seconds > 0.0 && amount > most * time.seconds)) {
      return fmt::format("{} at {:.3g} {}", name, amount / time.seconds, unit);
    }
  }
  return "";
}

std::string implausible_message(const CollectiveTimes& times, const Mesh& mesh) {
  const std::string_view name = name_of(times.opcode);
  if (times.axis >= mesh.size() || times.table.empty()) {
    return fmt::format("{} along an axis {} of {}, with {} time(s)", name, times.axis, mesh.size(),
                       times.table.size());
  }
  for (const MessageTime& row : times.table) {
    for (const double seconds : {row.alone_s, row.beside_s}) {
      if (!possible_time(seconds) || !std::isfinite(row.bytes) ||
          row.bytes > kMostBytes * seconds) {
        return fmt::format("{} of {:.3g} bytes along {} in {:.3g} s", name, row.bytes,
                           mesh[times.axis].name, seconds);
      }
    }
  }
  return "";
}

std::string implausible_rate(const DeviceRates& rates) {
  for (const auto& [dtype, rate] : rates.products) {
    if (rate > kMostFlops) {
      return fmt::format("products of {} at {:.3g} flop/s", name_of(dtype), rate);
    }
  }
  return rates.memory > kMostBytes ? fmt::format("memory at {:.3g} B/s", rates.memory) : "";
}

// Repeats the message as often as the time allows: in rows like those of a profile, or else in one
// shorter row. `repetitions` is 0 where there is no time for a message.
Probe probe_of(const CollectiveTimes& times, const MessageTime& row, double seconds) {
  constexpr double kRepetitions = 5.0;
  constexpr double kMostRows = 3.0;
  const double messages = std::floor(seconds / row.alone_s);
  Probe probe{
      .opcode = times.opcode, .axis = times.axis, .bytes = row.bytes, .alone_s = row.alone_s};
  probe.repetitions = static_cast<int>(std::clamp(messages - 1.0, 0.0, kRepetitions));
  probe.rows = static_cast<int>(std::clamp(messages / (1.0 + kRepetitions), 1.0, kMostRows));
  return probe;
}

}  // namespace

std::string implausible_number(const Profile& profile) {
  for (const auto& [name, seconds] :
       {std::pair("launch_s", profile.launch_s), std::pair("signal_s", profile.signal_s),
        std::pair("overhead_s", profile.overhead_s)}) {
    if (!possible_time(std::abs(seconds))) {  // the clocks of two streams may differ a little
      return fmt::format("{} of {:.3g} s", name, seconds);
    }
  }
  if (profile.rates) {
    if (std::string found = implausible_rate(*profile.rates); !found.empty()) {
      return found;
    }
  }
  for (const OperationTime& time : profile.operations) {
    if (std::string found = implausible_operation(time); !found.empty()) {
      return found;
    }
  }
  for (const CollectiveTimes& times : profile.collectives) {
    if (std::string found = implausible_message(times, profile.key.mesh); !found.empty()) {
      return found;
    }
  }
  for (size_t axis = 0; axis < profile.key.mesh.size(); ++axis) {
    if (profile.key.mesh[axis].size > 1 && times_of(profile, Opcode::all_reduce, axis) == nullptr) {
      return fmt::format("no all_reduce along {}", profile.key.mesh[axis].name);
    }
  }
  return "";
}

std::vector<Probe> probes_of(const Profile& profile, double seconds, double most_bytes) {
  constexpr int kFewest = 2;
  constexpr double kSmallPart = 0.15;  // of the time per axis
  const double share = seconds / static_cast<double>(axes_in_use(profile.key.mesh));
  std::vector<Probe> probes;
  for (size_t axis = 0; axis < profile.key.mesh.size(); ++axis) {
    const CollectiveTimes* times = times_of(profile, Opcode::all_reduce, axis);
    if (times == nullptr || times->table.empty() || times->table[0].bytes > most_bytes) {
      continue;
    }
    const std::vector<MessageTime>& table = times->table;
    Probe small = probe_of(*times, table.front(), kSmallPart * share);
    small.repetitions = std::max(small.repetitions, kFewest);
    probes.push_back(small);
    std::optional<Probe> large;
    for (auto row = table.begin() + 1; row != table.end() && row->bytes <= most_bytes; ++row) {
      const Probe probe = probe_of(*times, *row, (1.0 - kSmallPart) * share);
      if (probe.repetitions >= kFewest) {
        large = probe;
      }
    }
    if (large) {
      probes.push_back(*large);
    }
  }
  return probes;
}

bool is_off(const Probe& probe, const ProbeTimes& now, const Tolerance& tolerance) {
  const auto longer = [&](double a, double b) {
    return a > (1.0 + tolerance.part) * b + tolerance.seconds;
  };
  return longer(now.fastest_s, probe.alone_s) || longer(probe.alone_s, now.median_s);
}

std::string describe(const Probe& probe, const ProbeTimes& now, const Mesh& mesh) {
  return fmt::format("{} of {} along {} takes {}, not {}", name_of(probe.opcode),
                     format_bytes(static_cast<int64_t>(probe.bytes)), mesh[probe.axis].name,
                     format_seconds(now.median_s), format_seconds(probe.alone_s));
}

}  // namespace hidup
