// Bounds of the search problem from problems in which nothing overlaps.
#pragma once

#include "search/problem.h"

namespace hidup {

// Without interference no pass takes less than all of its computation, nor than all of its
// communication, messages included; hence not less than any mean of the two. With interference i
// it takes 1 - i times that and i times the sum of both. A single microbatch has nothing to hide
// its reshards behind: they count whole.
struct Weights {
  double forward = 1.0, backward = 1.0;  // of computation, from 0 to 1; the rest of communication
};

// The problem in which a pass takes that mean: one microbatch, all one behind the other, messages
// as a part of the step. Its best plan takes no more time than that of the given problem.
Problem without_overlap(const Problem& problem, const Weights& weights);

// By how much the bound of a plan's time grows with either weight: by its computation, less its
// communication.
Weights slope_of(const Problem& problem, const Plan& plan);

}  // namespace hidup
