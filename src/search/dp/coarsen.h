// Coarser problems with fewer layouts and states, in which plans take no more time.
#pragma once

#include "search/problem/problem.h"

namespace hidup {

// Returns the problem without
// - the layouts of small tensors, whose dearest reshard, there or back, takes at most `small_s`
//   seconds over all microbatches. Their reshards become free;
// - the last reading of every tensor that several operations read. A residual is then live only up
//   to the norm that reads it first.
// Every plan is a plan of the new problem with the same choices, and takes no more time there,
// because the objective is monotone (problem.h).
// here: the objective is monotone (problem.h).
Problem coarsened(const Problem& problem, double small_s);
// Returns the number of small tensors.
size_t small_tensors(const Problem& problem, double small_s);

}  // namespace hidup
