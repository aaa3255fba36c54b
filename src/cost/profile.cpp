#include "cost/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

std::string describe(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis.name, axis.size);
  }
  return text;
}

bool equal(const Mesh& a, const Mesh& b) {
  return describe(a) == describe(b);
}

}  // namespace

const CollectiveTimes* times_of(const Profile& profile, Opcode opcode, size_t axis,
                                CollectiveAlgorithm algorithm) {
  const auto found = std::ranges::find_if(profile.collectives, [&](const CollectiveTimes& times) {
    return times.opcode == opcode && times.axis == axis && times.algorithm == algorithm;
  });
  return found == profile.collectives.end() ? nullptr : &*found;
}

Profile of_class(Profile profile, size_t number) {
  for (OperationTime& time : profile.operations) {
    const double seconds = time.by_class.at(number);
    time.seconds = seconds > 0.0 ? seconds : time.seconds;
    time.by_class.clear();
  }
  if (!profile.rates_by_class.empty()) {
    profile.rates = std::exchange(profile.rates_by_class, {}).at(number);
  }
  profile.key.classes.clear();
  return profile;
}

Profile balanced(Profile profile) {
  const std::vector<int64_t>& classes = profile.key.classes;
  for (OperationTime& time : profile.operations) {
    double per_second = 0.0;
    for (const int64_t number : classes) {
      const double seconds = time.by_class.at(static_cast<size_t>(number));
      per_second += 1.0 / (seconds > 0.0 ? seconds : time.seconds);
    }
    time.seconds = classes.empty() ? time.seconds : std::ssize(classes) / per_second;
    time.by_class.clear();
  }
  profile.rates_by_class.clear();
  profile.key.classes.clear();
  return profile;
}

std::vector<double> measured_paces(const Profile& profile) {
  std::vector<double> paces;
  for (const int64_t number : profile.key.classes) {
    double slowest_s = 0.0;
    double seconds = 0.0;
    for (const OperationTime& time : profile.operations) {
      const double of_class = time.by_class.at(static_cast<size_t>(number));
      slowest_s += time.seconds;
      seconds += of_class > 0.0 ? of_class : time.seconds;
    }
    paces.push_back(slowest_s / seconds);
  }
  return paces;
}

std::string profile_mismatch(const ProfileKey& measured, const ProfileKey& wanted) {
  const auto differ = [](std::string_view what, const std::string& a, const std::string& b) {
    return fmt::format("it was measured with {} {}, and this run has {}", what, a, b);
  };
  if (measured.build != wanted.build) {
    return differ("build", measured.build, wanted.build);
  }
  if (measured.device != wanted.device) {
    return differ("device", measured.device, wanted.device);
  }
  if (measured.libraries != wanted.libraries) {
    return differ("libraries", fmt::format("{}", fmt::join(measured.libraries, ", ")),
                  fmt::format("{}", fmt::join(wanted.libraries, ", ")));
  }
  if (!equal(measured.mesh, wanted.mesh)) {
    return differ("mesh", describe(measured.mesh), describe(wanted.mesh));
  }
  if (measured.hosts != wanted.hosts) {
    return differ("ranks on hosts", fmt::format("[{}]", fmt::join(measured.hosts, ", ")),
                  fmt::format("[{}]", fmt::join(wanted.hosts, ", ")));
  }
  if (measured.classes != wanted.classes) {
    return differ("classes of devices", fmt::format("[{}]", fmt::join(measured.classes, ", ")),
                  fmt::format("[{}]", fmt::join(wanted.classes, ", ")));
  }
  return "";
}

}  // namespace hidup
