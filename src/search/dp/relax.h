// Lower bounds of the search problem, by relaxations without overlap.
#pragma once

#include <vector>

#include "search/problem/problem.h"

namespace hidup {

// Without interference, a pass takes at least all its computation, and at least all its
// communication including messages; hence at least any weighted mean of the two. With interference
// i it takes at least 1 - i times that mean plus i times their sum. A single microbatch hides no
// reshards, so they count in full.
struct Weights {
  double forward = 1.0, backward = 1.0;  // of computation, 0 to 1; communication has the rest
};

// Returns the relaxed problem, in which a pass takes that mean: one microbatch, no overlap,
// messages in the step. Its best plan takes no more time than the best plan of the given problem.
Problem without_overlap(const Problem& problem, const Weights& weights);

// Chooses greedily, for each operation, the choice that adds the least communication.
std::vector<int> least_communication_choices(const Problem& problem);

// The relaxed time of a plan in seconds, linear in the weights: constant + forward *
// weights.forward + backward * weights.backward.
struct CuttingPlane {
  double constant = 0.0;
  double forward = 0.0, backward = 0.0;
};
CuttingPlane cutting_plane_of(const Problem& problem, const std::vector<int>& choices);

// Return the least value of the planes, and the weights on a grid that maximize it.
double least_value(const std::vector<CuttingPlane>& planes, const Weights& weights);
Weights highest_weights(const std::vector<CuttingPlane>& planes);

}  // namespace hidup
