// Software pipelining of microbatches (modulo scheduling: B. R. Rau, MICRO-27, 1994).
#pragma once

#include <vector>

#include "schedule/generate.h"

namespace hidup::pipeline {

// Gives the tasks of one microbatch start times, as if every pass took one unit. Every microbatch
// has the same start times, a period after those of the microbatch before it. The period is what a
// device does for a microbatch, three units per chunk, and no device has two tasks at once. A pass
// that comes late keeps its microbatch alive for longer: a device keeps (time from the forward to
// the backward pass) / period microbatches.
//
// `hops`: how many units after each other the passes start on neighbouring devices: a number for
// each row of chunks (Layout), forward, then for each row backward. Later rows than `hops` has
// start over with the first number. Returns the passes of every device, without limits; turns are
// start times.
std::vector<Rule::Device> modulo_turns(const Pipeline& pipeline, const std::vector<int>& hops);

}  // namespace hidup::pipeline
