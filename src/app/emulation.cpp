#include "app/emulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "app/costs.h"
#include "comm/collective.h"

namespace hidup {
namespace {

// Throws Error(usage) where it is of another mesh: all else may differ from this machine.
Profile parse_fitting(const Deck& deck, const Mesh& mesh, const std::string& text) {
  const std::string& file = deck.cluster.profile;
  Profile profile = parse_profile(text, file);
  ProfileKey wanted = profile.key;
  wanted.mesh = mesh;
  const std::string mismatch = profile_mismatch(profile.key, wanted);
  if (!mismatch.empty()) {
    fail_at(deck, "cluster.profile",
            fmt::format("cluster.profile: {} does not fit: {}", file, mismatch));
  }
  return profile;
}

}  // namespace

Profile emulated_costs(const Deck& deck, const Mesh& mesh, Communicator& world) {
  const bool has_file = !deck.cluster.profile.empty() && deck.cluster.profile != "auto";
  std::string text;
  collectively(world, [&] {
    if (has_file && world.rank() == 0) {
      text = read_profile_file(deck.cluster.profile);
    }
  });
  text = world.broadcast(text);
  std::optional<Profile> costs;
  collectively(world, [&] {
    costs = costs_of(deck, mesh,
                     has_file ? std::optional(parse_fitting(deck, mesh, text)) : std::nullopt);
    if (!costs) {
      fail_for_missing_rate(deck, mesh,
                            "emulated times rest on it, or on cluster.profile with a file of "
                            "`hidup profile`");
    }
  });
  return *std::move(costs);
}

EmulatedTimes emulated_times(const Durations& durations, int64_t rank) {
  return {.end_of = [&durations, rank](
                        int instruction,
                        Nanoseconds start) { return durations.end_of(instruction, rank, start); },
          .launch = durations.launch(),
          .signal = durations.signal(),
          .overhead = durations.overhead()};
}

Prediction predict_emulated(const Program& program, const Durations& durations) {
  const PlayedStep step = play(program, durations);
  Prediction prediction{.iteration_s = 1e-9 * static_cast<double>(step.end + durations.overhead())};
  for (const std::vector<PlayedInstruction>& rank : step.ranks) {
    std::vector<Interval> intervals;
    for (const PlayedInstruction& played : rank) {
      intervals.push_back(
          {1e-9 * static_cast<double>(played.start), 1e-9 * static_cast<double>(played.end)});
    }
    const BusyTimes busy = busy_times(program, intervals);
    if (prediction.instructions.empty() || busy.compute_s > prediction.busy.compute_s) {
      prediction.busy = busy;
      prediction.instructions = std::move(intervals);
    }
  }
  return prediction;
}

}  // namespace hidup
