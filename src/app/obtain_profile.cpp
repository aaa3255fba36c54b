// The profile of a run: from a file, cached by an earlier run, or new.
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

// Returns the folder that the variable names; empty without one. Relative paths do not count,
// because they depend on the working folder and would litter it.
fs::path folder_in(const char* variable) {
  const char* text = std::getenv(variable);
  fs::path folder = text == nullptr ? "" : text;
  return folder.is_absolute() ? folder : fs::path();
}

// Returns the cache file for this key and graph; empty where the user has no cache folder.
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

// Returns the text of a profile for this key. Throws Error(file), or Error(usage) with the place of
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

// Returns the text of a cached profile for this key; empty where it is unusable.
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

// Caches the profile. Only warns on failure, because a run can do without. Returns true on success.
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

// Measures a profile; none where no timed strategy fits in memory (others may). Collective.
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

// Returns the delay that a message may have without any other cause. Collective.
double least_delay(const Machine& machine) {
  constexpr double kLaunch = 5e-6;  // of a kernel
  return machine.communication.groups->through_host()
             ? std::ranges::max(all_gather_value(machine.world, nap_s()))
             : kLaunch;
}

// Describes messages whose times now differ from the profile's; empty where it holds. Repeats
// suspect ones, which other work on the machine may have delayed. Collective.
std::string drift_of(const Profile& profile, const Inputs& inputs, Machine& machine) {
  constexpr double kSeconds = 0.04;  // per look
  constexpr int kLooks = 3;
  const Tolerance tolerance{.part = 0.2, .seconds = least_delay(machine)};
  constexpr int64_t kLargest = int64_t{64} << 20;  // bytes; profiles have no larger ones
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

// Returns the profile that cluster.profile names, on all ranks. Throws CollectiveError(file) or
// CollectiveError(usage). Collective.
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

// Returns the file's cached profile on all ranks, if there is one and it still holds. Collective.
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

// Returns the profile of an emulated cluster on all ranks, none for rates alone. Measures nothing
// on this other machine. Throws CollectiveError(file) or CollectiveError(usage). Collective.
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

// See obtain_profile(). Collective.
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
  // Parsing the printed profile gives the same numbers as in later runs.
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
