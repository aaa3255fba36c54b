// Where a run's profile comes from: measured, read from a file, or kept from an earlier run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/inputs.h"
#include "app/machine.h"
#include "cost/profile.h"

namespace hidup {

// thorough: all named strategies with 1, 2 and 4 microbatches, and which axes' links are shared.
// brief: a few of the strategies, within some seconds; for what `train` measures by itself.
enum class ProfileEffort { brief, thorough };

// Parts of a ProfileKey. numbered_hosts: of every rank, as it first appears.
std::string build_name(const std::string& version, const std::string& commit, bool dirty);
std::vector<int64_t> numbered_hosts(const std::vector<std::string>& hosts);

// Collective. What a profile for this run must have been measured with.
ProfileKey profile_key(const Inputs& inputs, const Machine& machine);

// Collective: runs steps of the model under several strategies, the instructions in turn, then
// collectives of all sizes. Throws CollectiveError(out_of_memory) where no strategy fits.
Profile measure_profile(const Inputs& inputs, Machine& machine, ProfileEffort effort);

// Collective: the profile that cluster.profile asks for, on all ranks; none where it is none.
// auto: the one that is kept in the user's cache folder ($XDG_CACHE_HOME or ~/.cache, then hidup/;
// only where that is an absolute path)
// for this key and model, measured and put there where there is none; none where nothing that would
// be timed fits in the memory. Products are computed by its algorithms from then on.
// Throws CollectiveError(usage) where a file does not fit, (file) where it cannot be read.
std::optional<Profile> obtain_profile(const Inputs& inputs, Machine& machine);

}  // namespace hidup
