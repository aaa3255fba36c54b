// Coarser problems: fewer layouts to tell apart, hence fewer states, and times that are at most
// those of the given problem.
#pragma once

#include "search/problem/problem.h"

namespace hidup {

// The problem without
// - the layouts of small tensors: whose dearest reshard, there or back, takes at most `small_s`
//   seconds in all microbatches together. Their reshards are free;
// - the last reading of every tensor that several operations read. A residual is live only up to
//   the norm that reads it first.
// Every plan of the problem is a plan of this one, with the same choices, and takes no more time
// here: the objective is monotone (problem.h).
Problem coarsened(const Problem& problem, double small_s);
// How many tensors are small.
size_t small_tensors(const Problem& problem, double small_s);

}  // namespace hidup
