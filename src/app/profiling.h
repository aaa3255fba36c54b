// The source of a run's profile: measured, read from a file, or cached by an earlier run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/inputs.h"
#include "app/machine.h"
#include "cost/profile.h"

namespace hidup {

// thorough: all named strategies with 1, 2 and 4 microbatches, and sharing of links by axis. brief:
// a few strategies within some seconds, for measurements during `train`.
enum class ProfileEffort { brief, thorough };

// Returns the key that a profile for this run must have. Collective.
ProfileKey profile_key(const Inputs& inputs, const Machine& machine);

// Runs steps of the model under several strategies, one instruction at a time, then collectives of
// all sizes. Throws CollectiveError(out_of_memory) where no strategy fits. Collective.
Profile measure_profile(const Inputs& inputs, Machine& machine, ProfileEffort effort);

// Returns the profile that cluster.profile asks for, if any, on all ranks. auto: the one for this
// key and model in the user's cache folder (absolute $XDG_CACHE_HOME or ~/.cache, then hidup/),
// measured and cached if missing; none where nothing to be timed fits in memory. Products use its
// algorithms from then on. Throws CollectiveError(usage) where a file does not fit, (file) where it
// cannot be read. Collective.
std::optional<Profile> obtain_profile(const Inputs& inputs, Machine& machine);

}  // namespace hidup
