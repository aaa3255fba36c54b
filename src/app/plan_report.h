// The output of `search` and `explain` for a strategy and for those that lost to it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/planning.h"
#include "app/repeated_work.h"
#include "app/what_if.h"

namespace hidup {

using Json = nlohmann::ordered_json;

// Prints the strategy, the predicted step and memory of its notes, the basis of these, and a line
// about repeated work, which may be empty.
void print_plan(const PlanningInput& input, const Strategy& strategy, const Profile& costs,
                const std::string& repeated);
// Prints a line per candidate: the time of its step, relative to the first one's, and why it lost.
void print_candidates(const std::vector<Candidate>& candidates);

// Prints a line per change: the time of a step, and its gain, or the reason why it is infeasible.
void print_what_if(const WhatIfReport& report);

// Returns the report of a strategy with a prediction among its notes.
Json plan_json(const PlanningInput& input, const Strategy& strategy, const RepeatedWork& repeated);
// Returns the candidates by name.
Json candidates_json(const std::vector<Candidate>& candidates);
// Returns, per proposer, the number of candidates, and a flag for the proposer of the first one.
Json proposers_json(const std::vector<Candidate>& candidates);
// Returns an array with an object per change.
Json what_if_json(const WhatIfReport& report);

}  // namespace hidup
