// Which times predictions and the search rest on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/bandwidth_trace.h"
#include "cost/profile.h"
#include "cost/rank_costs.h"
#include "deck/deck.h"

namespace hidup {

// The text of a profile. Throws Error(file).
std::string read_profile_file(const std::string& path);

// Nothing where `measured` is none and the cluster deck has no rates. `measured`: what
// obtain_profile() found, or a file's; cluster.cost.model and profile_noise are applied. Of rates
// those of cluster.device, or the least of cluster.devices; the search rests on them.
std::optional<Profile> costs_of(const Deck& deck, const Mesh& mesh,
                                const std::optional<Profile>& measured);

// Flop/s that so many ranks are rated at together for products of model.precision; 0: not known.
double rated_flops(const Deck& deck, int64_t ranks);

// What `costs`, which costs_of() gave for the cluster as it is, would be if as many ranks were
// along each axis as `mesh` has, and links along `twice_as_fast`, if any, had twice the bandwidth:
// from the deck's rates changed so (`shared` and `per_host` stay, the links of hosts are faster,
// too), or of measured costs by changed_links.h. Nothing where no time of messages along an axis is
// known.
std::optional<Profile> changed_costs(const Deck& deck, const Profile& costs, const Mesh& mesh,
                                     std::optional<size_t> twice_as_fast);

// The costs of every rank, where `costs` is what costs_of() gave: where they are made of rates,
// each of cluster.devices has its own.
RankCosts rank_costs(const Deck& deck, const Mesh& mesh, const Profile& costs);

// Per axis of the mesh, the link in time; empty where none varies. `shared` divides the nominal
// bandwidth and those of the trace alike, so it does not count here.
std::vector<BandwidthTrace> links_in_time(const Deck& deck, const Mesh& mesh);

// The profile that cluster.profile names, of this text, measured anywhere on such a mesh. Throws
// Error(usage).
Profile profile_of_another_machine(const Deck& deck, const Mesh& mesh, const std::string& text);

// costs_of() for commands that need no ranks, with the deck's profile where that is a file.
// Throws Error(file); Error(usage) as below, and where the file is of another mesh.
Profile costs_without_ranks(const Deck& deck, const Mesh& mesh);

// Throws Error(usage) "PLACE: KEY is missing: REASON" with the first key that costs_of() lacked.
[[noreturn]] void fail_for_missing_rate(const Deck& deck, const Mesh& mesh,
                                        const std::string& reason);

}  // namespace hidup
