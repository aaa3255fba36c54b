// The profile of a run: a file's, one that is kept from an earlier run, or a new one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "app/costs.h"
#include "app/profiling.h"
#include "comm/collective.h"
#include "comm/patient_yield.h"
#include "core/check.h"
#include "core/log.h"
#include "core/new_file.h"
#include "core/text.h"
#include "core/units.h"
#include "cost/profile_check.h"
#include "deck/cluster_deck.h"
#include "graph/text.h"
#include "kernels/products.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

// The folder that the variable names; empty without one. A relative path would mean another folder
// wherever the program starts, and fill the user's with files.
fs::path folder_in(const char* variable) {
  const char* text = std::getenv(variable);
  fs::path folder = text == nullptr ? "" : text;
  return folder.is_absolute() ? folder : fs::path();
}

// Where the profile of this key and graph is kept; empty where the user has no such folder.
std::string cached_file(const ProfileKey& key, const Graph& graph) {
  fs::path folder = folder_in("XDG_CACHE_HOME");
  if (folder.empty()) {
    folder = folder_in("HOME");
    if (folder.empty()) {
      return "";
    }
    folder /= ".cache";
  }
  const uint64_t hash = hash_of(print_profile({.key = key}) + fmt::format("{}", graph_hash(graph)));
  return folder / "hidup" / fmt::format("profile-{:016x}.yaml", hash);
}

bool is_there(const std::string& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

// The text of a profile for this key. Throws Error(file), or Error(usage) with the place of
// cluster.profile in the deck.
std::string fitting(const std::string& file, const ProfileKey& key, const Deck& deck) {
  std::string text = read_profile_file(file);
  const std::string mismatch = profile_mismatch(parse_profile(text, file).key, key);
  if (!mismatch.empty()) {
    fail_at(deck, "cluster.profile",
            fmt::format("cluster.profile: {} does not fit: {}", file, mismatch));
  }
  return text;
}

// The same of a file that this program keeps for itself: empty where it is of no use.
std::string kept(const std::string& file, const ProfileKey& key) {
  try {
    std::string text = fitting(file, key, Deck{});
    const std::string wrong = implausible_number(parse_profile(text, file));
    if (!wrong.empty()) {
      fail(ExitCode::file, "{} has {}", file, wrong);
    }
    return text;
  } catch (const Error& error) {
    log::warning("the profile is measured anew: {}", error.what());
    return "";
  }
}

// A profile is a convenience: where it cannot be kept, that is told, and no more. Whether it is
// kept.
bool keep(const Profile& profile, const std::string& file) {
  if (file.empty()) {
    log::warning("the profile is not kept: neither XDG_CACHE_HOME nor HOME is an absolute path");
    return false;
  }
  try {
    fs::create_directories(fs::path(file).parent_path());
    write_text_file(file, print_profile(profile), true);
    return true;
  } catch (const std::exception& error) {
    log::warning("the profile is not kept: {}", error.what());
    return false;
  }
}

// Collective. None where no strategy that is timed fits in the memory: another may.
std::optional<Profile> measure_if_it_fits(const Inputs& inputs, Machine& machine) {
  try {
    return measure_profile(inputs, machine, ProfileEffort::brief);
  } catch (const CollectiveError& error) {
    if (error.code() != ExitCode::out_of_memory) {
      throw;
    }
    log::warning("no profile is measured: no strategy that would be timed fits in the memory");
    return std::nullopt;
  }
}

// Collective. By how much a message may be late that nothing else delays.
double least_delay(const Machine& machine) {
  constexpr double kLaunch = 5e-6;  // of a kernel
  return machine.communication.groups->through_host()
             ? std::ranges::max(all_gather_value(machine.world, nap_s()))
             : kLaunch;
}

// Collective. Messages that take other times now than the profile says; empty where it holds. What
// looks off is looked at again: it may have met other work on the machine.
std::string drift_of(const Profile& profile, const Inputs& inputs, Machine& machine) {
  constexpr double kSeconds = 0.04;  // of a look
  constexpr int kLooks = 3;
  const Tolerance tolerance{.part = 0.2, .seconds = least_delay(machine)};
  constexpr int64_t kLargest = int64_t{64} << 20;  // bytes, as no profile has larger ones
  const int64_t memory =
      std::ranges::min(all_gather_value(machine.world, machine.device->memory()));
  std::vector<Probe> probes =
      probes_of(profile, kSeconds, static_cast<double>(std::min(memory / 4, kLargest)));
  std::vector<std::string> drifts;
  for (int look = 0; look < kLooks && !probes.empty(); ++look) {
    const std::vector<ProbeTimes> now =
        time_probes(*machine.device, *machine.communication.groups, machine.world, probes);
    std::vector<Probe> off;
    drifts.clear();
    for (size_t i = 0; i < probes.size(); ++i) {
      if (is_off(probes[i], now[i], tolerance)) {
        off.push_back(probes[i]);
        drifts.push_back(describe(probes[i], now[i], inputs.mesh));
      }
    }
    probes = std::move(off);
  }
  return fmt::format("{}", fmt::join(drifts, "; "));
}

// Collective. The text of the profile that cluster.profile names, on all ranks. Throws
// CollectiveError(file) or CollectiveError(usage).
Profile named_profile(const Inputs& inputs, Machine& machine, const ProfileKey& key) {
  const std::string& file = inputs.deck().cluster->profile;
  const std::string text =
      text_of_first(machine.world, [&] { return fitting(file, key, inputs.deck()); });
  Profile profile = parse_profile(text, file);
  log::info("profile: {}", file);
  if (const std::string drift = drift_of(profile, inputs, machine); !drift.empty()) {
    log::warning("cluster.profile: {} may mislead: {}", file, drift);
  }
  return profile;
}

// Collective. The profile that is kept in the file, on all ranks, where there is one that still
// holds.
std::optional<Profile> kept_profile(const Inputs& inputs, Machine& machine, const ProfileKey& key,
                                    const std::string& file) {
  const std::string text =
      text_of_first(machine.world, [&] { return is_there(file) ? kept(file, key) : ""; });
  if (text.empty()) {
    return std::nullopt;
  }
  const double began = monotonic_seconds();
  Profile profile = parse_profile(text, file);
  const std::string drift = drift_of(profile, inputs, machine);
  if (!drift.empty()) {
    log::info("profile: {} is measured again: {}", file, drift);
    return std::nullopt;
  }
  log::info("profile: {}, looked at in {}", file, format_seconds(monotonic_seconds() - began));
  return profile;
}

// Collective. What an emulated cluster's times rest on beside rates, on all ranks: nothing is
// measured here, because this is another machine. Throws CollectiveError(file) or
// CollectiveError(usage).
std::optional<Profile> profile_to_emulate(const Inputs& inputs, Machine& machine) {
  const std::string& file = inputs.deck().cluster->profile;
  if (file == "auto") {
    return std::nullopt;
  }
  const std::string text = text_of_first(machine.world, [&] {
    std::string read = read_profile_file(file);
    profile_of_another_machine(inputs.deck(), inputs.mesh, read);
    return read;
  });
  log::info("profile: {}", file);
  return parse_profile(text, file);
}

// Collective. See obtain_profile().
std::optional<Profile> find_profile(const Inputs& inputs, Machine& machine) {
  const std::string& choice = inputs.deck().cluster->profile;
  if (choice.empty()) {
    return std::nullopt;
  }
  if (inputs.deck().cluster->emulates()) {
    return profile_to_emulate(inputs, machine);
  }
  const ProfileKey key = profile_key(inputs, machine);
  if (choice != "auto") {
    return named_profile(inputs, machine, key);
  }
  const bool first = machine.world.rank() == 0;
  const std::string file = first ? cached_file(key, inputs.graph) : "";
  if (std::optional<Profile> profile = kept_profile(inputs, machine, key, file)) {
    return profile;
  }
  const double began = monotonic_seconds();
  const std::optional<Profile> profile = measure_if_it_fits(inputs, machine);
  if (!profile) {
    return std::nullopt;
  }
  if (first) {
    const double seconds = monotonic_seconds() - began;
    const bool is_kept = keep(*profile, file);
    log::info("profile: measured in {:.1f} s{}", seconds, is_kept ? ", kept in " + file : "");
  }
  // As later runs will read it.
  return parse_profile(machine.world.broadcast(print_profile(*profile)), "profile");
}

}  // namespace

std::optional<Profile> obtain_profile(const Inputs& inputs, Machine& machine) {
  std::optional<Profile> profile = find_profile(inputs, machine);
  if (profile) {
    kernels::choose_algorithms(profile->algorithms);
  }
  return profile;
}

}  // namespace hidup
