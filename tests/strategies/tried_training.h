// Trainings of random strategies against one rank.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "sharding/strategy.h"

namespace hidup {

// Returns the numbers "FIRST LAST" in the variable of the environment, else in the fallback.
std::pair<int, int> cases_to_try(const char* variable, const char* fallback);

// Trains a few steps under the first strategy and compares with one rank; then resumes after the
// first step under the second one, and compares losses. Test failures name the case and show the
// strategies.
void try_training(const std::string& name, const Graph& graph,
                  const std::function<Strategy()>& strategy);

}  // namespace hidup
