// A lower bound near the best plan's time, by wide sweeps of a coarser problem.
#pragma once

#include "search/dp/dynamic.h"

namespace hidup {

struct CertifyOptions {
  // Beam width of the first sweep; the next ones are three times as wide each, as long as the bound
  // is not as near to the best time as `gap`, a part of it, comes nearer, and enough work is left.
  // 0: no sweeps.
  size_t width = 20;
  double gap = 0.02;
  // Of all sweeps together (Expander::work()): about three seconds.
  size_t work = 250'000'000;
};

// Raises the lower bound of what solve() found for the problem until it is near `best_s`, the least
// seconds of any plan that was found, of this problem or of another one that it competes with (with
// another number of microbatches). Where the bound stays far off, sweeps of the problem itself
// follow, if it is small, and where memory is short some without the plans that do not fit. They
// may find better plans. Ends at the deadline of `options`, and where wider sweeps would find the
// same.
void certify(const Problem& problem, const DynamicOptions& options, const CertifyOptions& how,
             double best_s, DynamicResult& found);

}  // namespace hidup
