// The times on which predictions and the search rest.
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

// Returns the text of a profile. Throws Error(file).
std::string read_profile_file(const std::string& path);

// Returns the costs of the cluster; none without `measured` and without rates in the deck.
// `measured`: from obtain_profile() or a file. Applies cluster.cost.model and
// cluster.profile_noise. Uses the rates of cluster.device, or the least of cluster.devices.
std::optional<Profile> costs_of(const Deck& deck, const Mesh& mesh,
                                const std::optional<Profile>& measured);

// Return the rated flop/s of each rank, and of all together, for products of model.precision; 0:
// unknown.
std::vector<double> rated_flops_of_ranks(const Deck& deck, int64_t ranks);
double rated_flops(const Deck& deck, int64_t ranks);

// Returns rated_flops_of_ranks(); empty where one is unknown.
std::vector<double> rated_paces(const Deck& deck, const Mesh& mesh);

// Returns the deck with twice the bandwidth of the axis, and of its hosts' links.
Deck with_twice_the_bandwidth(Deck deck, const std::string& axis);

// Returns `costs`, which costs_of() gave, for another number of ranks along each axis, as in
// `mesh`, and for twice the bandwidth along `twice_as_fast`, if any. Rates of the deck are changed
// directly (`shared` and `per_host` stay; host links get faster, too), measured costs by
// changed_links.h. Returns none where message times along an axis are unknown.
std::optional<Profile> changed_costs(const Deck& deck, const Profile& costs, const Mesh& mesh,
                                     std::optional<size_t> twice_as_fast);

// Returns the pace of every rank, relative to the others: measured, or else rated; empty where a
// rate is unknown. `costs`: from costs_of().
std::vector<double> paces_of_ranks(const Deck& deck, const Mesh& mesh, const Profile& costs);

// Returns the mesh with Axis::paces, where ranks with these paces differ along an axis: the pace of
// a coordinate is the least of its ranks. Without paces returns the same mesh.
Mesh with_paces(Mesh mesh, const std::vector<double>& of_ranks);

// Returns the mesh with the paces of measured classes, where `costs` have them.
Mesh with_measured_paces(Mesh mesh, const Profile& costs);

// Returns the costs of every rank; `costs`: from costs_of(). Each class of devices has its own.
RankCosts rank_costs(const Deck& deck, const Mesh& mesh, const Profile& costs);

// Returns the costs of equal ranks for which a search makes its plans: `costs`, from costs_of(), or
// those of the mean pace where the mesh has Axis::paces or devices of several classes were
// measured. With parts in proportion to their paces the ranks take as long as such equal ranks.
Profile balanced_costs(const Deck& deck, const Mesh& mesh, const Profile& costs);

// Returns the varying link of each axis of the mesh; empty where none varies. `shared` divides the
// nominal bandwidth and the trace alike, so it has no effect here.
std::vector<BandwidthTrace> links_in_time(const Deck& deck, const Mesh& mesh);

// Returns the varying pace of each rank's device, over its rates; empty where none varies.
std::vector<BandwidthTrace> paces_in_time(const Deck& deck, int64_t ranks);

// Returns the profile of cluster.profile from its text, measured on any machine with such a mesh.
// Throws Error(usage).
Profile profile_of_another_machine(const Deck& deck, const Mesh& mesh, const std::string& text);

// Returns costs_of() for commands without ranks, with the deck's profile if that is a file. Throws
// Error(file); Error(usage) as below, and where the file is of another mesh.
Profile costs_without_ranks(const Deck& deck, const Mesh& mesh);

// Throws Error(usage) "PLACE: KEY is missing: REASON" with the first key that costs_of() lacked.
[[noreturn]] void fail_for_missing_rate(const Deck& deck, const Mesh& mesh,
                                        const std::string& reason);

}  // namespace hidup
