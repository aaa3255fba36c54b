// What `search` and `explain` say of a strategy and of those that lost to it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/planning.h"
#include "app/repeated_work.h"
#include "app/what_if.h"

namespace hidup {

using Json = nlohmann::ordered_json;

// The strategy, the predicted step and memory that its notes have, what these rest on, and a line
// about repeated work, which may be empty.
void print_plan(const PlanningInput& input, const Strategy& strategy, const Profile& costs,
                const std::string& repeated);
// A line per candidate: its step's time, against that of the first one, and why it lost.
void print_candidates(const std::vector<Candidate>& candidates);

// A line per change: the step's time then, and how much faster that is than now, or why it is not.
void print_what_if(const WhatIfReport& report);

// Of a strategy with a prediction among its notes.
Json plan_json(const PlanningInput& input, const Strategy& strategy, const RepeatedWork& repeated);
// By name.
Json candidates_json(const std::vector<Candidate>& candidates);
// Per proposer of the candidates how many it proposed, and whether the first is its.
Json proposers_json(const std::vector<Candidate>& candidates);
// An array, an object per change.
Json what_if_json(const WhatIfReport& report);

}  // namespace hidup
