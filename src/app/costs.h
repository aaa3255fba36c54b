// Which times predictions and the search rest on.
#pragma once

#include <optional>
#include <string>

#include "cost/profile.h"
#include "deck/deck.h"

namespace hidup {

// The text of a profile. Throws Error(file).
std::string read_profile_file(const std::string& path);

// Nothing where `measured` is none and the cluster deck has no rates. `measured`: what
// obtain_profile() found, or a file's; cluster.cost.model and profile_noise are applied.
std::optional<Profile> costs_of(const Deck& deck, const Mesh& mesh,
                                const std::optional<Profile>& measured);

// The same for commands that need no ranks, with the deck's profile where that is a file.
// Throws Error(file); Error(usage) as below, and where the file is of another mesh.
Profile costs_without_ranks(const Deck& deck, const Mesh& mesh);

// Throws Error(usage) "PLACE: KEY is missing: REASON" with the first key that costs_of() lacked.
[[noreturn]] void fail_for_missing_rate(const Deck& deck, const Mesh& mesh,
                                        const std::string& reason);

}  // namespace hidup
