// Random schedules of a pipeline that devices can do.
#pragma once

#include "schedule/schedule.h"
#include "strategy_cases.h"

namespace hidup {

// Returns the trace of devices that take any task whose cause is done. Some backward passes leave a
// weights pass, some slots have two tasks, and some are empty.
pipeline::Schedule random_schedule(const pipeline::Pipeline& pipeline, Draw& draw);

}  // namespace hidup
