// Random small search problems.
#pragma once

#include <cstdint>

#include "search/problem/problem.h"

namespace hidup {

struct RandomProblem {
  uint64_t seed = 0;
  int microbatches = 2;
  size_t ops = 5;     // in each block
  size_t blocks = 1;  // equal ones in sequence
  int most_choices = 3;
};
Problem random_problem(const RandomProblem& parameters);

}  // namespace hidup
