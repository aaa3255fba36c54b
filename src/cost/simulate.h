// A discrete-event simulation of a step: when every instruction runs, before it does.
#pragma once

#include <vector>

#include "cost/busy.h"
#include "cost/rank_costs.h"
#include "program/program.h"

namespace hidup {

struct Prediction {
  double iteration_s = 0.0;
  BusyTimes busy;
  std::vector<Interval> instructions;  // since the step's start, of every one of the program's
};

// Both streams in order, waits as events, collectives on all ranks together; while both streams of
// a rank are busy, each runs at the pace that was measured for that. Simulated are the program's
// distinct ranks (one of those that have the same parts and costs); times are those of the rank
// that is busiest with computation. A collective waits for all of them: where devices differ along
// another axis than its own, for those of other groups, too. Links are as the costs have them,
// whatever the time (play.h has links that vary).
Prediction simulate(const Program& program, const RankCosts& costs);

}  // namespace hidup
