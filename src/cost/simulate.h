// A discrete-event simulation that predicts the time of every instruction of a step.
#pragma once

#include <vector>

#include "cost/busy.h"
#include "cost/rank_costs.h"
#include "program/program.h"

namespace hidup {

struct Prediction {
  double iteration_s = 0.0;
  BusyTimes busy;
  std::vector<Interval> instructions;  // per instruction, since the step's start
};

// Simulates the streams in order, waits as events, and collectives on all ranks together. While a
// rank computes and communicates, both run at the pace that was measured for that. It simulates
// the program's distinct ranks (one of those with the same parts and costs) and returns the times
// of the rank that computes longest; instructions that it skips have the times of another rank. A
// collective waits for all simulated ranks; where devices differ along another axis than its own,
// it also waits for ranks of other groups. Links keep the bandwidth of the costs (play.h has links
// that vary).
Prediction simulate(const Program& program, const RankCosts& costs);

// Returns ranks that include one of every kind: of the same parts and costs.
std::vector<int64_t> ranks_of_every_kind(const Program& program, const RankCosts& costs);

}  // namespace hidup
