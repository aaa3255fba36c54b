// Bounds of the search problem from problems in which nothing overlaps.
#pragma once

#include <vector>

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

// Choices of little communication: operation by operation those that add the least.
std::vector<int> quiet_choices(const Problem& problem);

// The mean of a plan, in the weights: at + forward * weights.forward + backward * weights.backward.
struct Line {
  double at = 0.0;
  double forward = 0.0, backward = 0.0;
};
Line line_of(const Problem& problem, const std::vector<int>& choices);

// Of several lines: the least, and (on a grid) the weights where that is greatest.
double least(const std::vector<Line>& lines, const Weights& weights);
Weights highest(const std::vector<Line>& lines);

}  // namespace hidup
