// A schedule's times as text for a terminal.
#pragma once

#include <string>

#include "schedule/schedule.h"
#include "schedule/simulate.h"

namespace hidup::pipeline {

// Returns a line per device, of at most `width` characters: time runs to the right, a slot begins
// with its cell of a CSV file, or with its pass where that has no room, and dots are idle times.
// Where even the passes have no room, the lines end before the schedule does, and a last line says
// so.
std::string draw_lanes(const Pipeline& pipeline, const Schedule& schedule,
                       const Simulation& simulation, int width);

}  // namespace hidup::pipeline
