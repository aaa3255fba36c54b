// Describes what each class of devices does in a step, for people and for --json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/forecast.h"
#include "deck/deck.h"

namespace hidup {

// Returns the part of the flops of all ranks that each one computes.
std::vector<double> parts_of_work(const Program& program);

// An item of cluster.devices.
struct ClassReport {
  std::vector<int> ranks;   // rising
  double flops = 0.0;       // flop/s that a rank is rated at, of model.precision; 0: unknown
  double work_part = 0.0;   // of the flops of all ranks in a step
  double compute_s = 0.0;   // computation in a step, of the rank that computes longest
  double wait_s = 0.0;      // the rest of the step on that rank: for messages and other ranks
  int64_t bytes = 0;        // planned memory of the rank that needs most
  int64_t limit_bytes = 0;  // the deck's memory of a rank; 0: unknown
};

// Returns a report per item of cluster.devices, in the deck's order; nothing without items.
// Computation that messages slow down counts as without them. `costs`: of the forecast.
std::vector<ClassReport> report_classes(const Deck& deck, const Forecast& step,
                                        const RankCosts& costs);

// Returns a title and a line per class; nothing without classes.
std::string describe(const std::vector<ClassReport>& classes);

}  // namespace hidup
