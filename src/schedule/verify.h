// Proof that devices can do a schedule, independently of the code that made it.
#pragma once

#include <span>

#include "schedule/generate.h"
#include "schedule/schedule.h"

namespace hidup::pipeline {

// Checks that
// - every chunk and microbatch has one forward pass, one backward pass and at most one weights
// pass,
//   each on the chunk's device,
// - no task of a device needs a later one of it, or one of the same slot,
// - all devices reach their end: each does its slots in order and waits for what it receives, and
//   sending does not wait, so no devices wait for each other in a circle,
// - `limits` hold, one per device; none: there are no limits.
// Throws Error(usage) "row R, cell C (TASKS): PROBLEM" where not. Rows are devices, cells are
// slots, and both count from 0.
void verify(const Pipeline& pipeline, const Schedule& schedule,
            std::span<const Limits> limits = {});

}  // namespace hidup::pipeline
