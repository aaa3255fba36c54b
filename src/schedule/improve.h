// Shortens a schedule by a local search.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/generate.h"

namespace hidup::pipeline {

// Moves slots of the critical path, the chain of slots and moves that ends last, by a few places
// within their devices, and keeps a change if the makespan does not grow and the limits hold. Makes
// at most `rounds` tries, and stops at lower_bound(). The tries are random, but the same in every
// call. A round takes O(tasks).
Schedule improve(const Pipeline& pipeline, Schedule schedule, const Times& times,
                 std::span<const Limits> limits, int64_t rounds);

}  // namespace hidup::pipeline
