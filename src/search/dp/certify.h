// Raises the lower bound towards the best plan's time by wide sweeps of a coarser problem.
#pragma once

#include "search/dp/dynamic.h"

namespace hidup {

struct CertifyOptions {
  // The beam width of the first sweep; 0: no sweeps. Each further sweep is three times as wide.
  // They follow while work is left and the bound's relative distance to the best time is above
  // `gap` and falls.
  size_t width = 20;
  double gap = 0.02;
  // The work of all sweeps together (Expander::work()): about three seconds.
  size_t work = 250'000'000;
};

// Raises the lower bound that solve() found until it is near `best_s`, the least seconds of any
// plan found, also for competing problems (other numbers of microbatches). If the bound stays far
// off, it sweeps the problem itself, where that is small, and where memory is short also without
// the plans that do not fit. These sweeps may find better plans. Ends at the deadline of `options`,
// and where wider sweeps would find the same.
void certify(const Problem& problem, const DynamicOptions& options, const CertifyOptions& how,
             double best_s, DynamicResult& found);

}  // namespace hidup
