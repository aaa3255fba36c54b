#include "cost/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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
  return "";
}

}  // namespace hidup
