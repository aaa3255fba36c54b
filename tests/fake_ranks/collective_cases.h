// What holds for every implementation of Communicator, on any number of ranks. All
// ranks run a case together, each on its own communicator.
#pragma once

#include <vector>

#include "comm/communicator.h"

namespace hidup {

struct CollectiveCase {
  const char* name;
  void (*run)(Communicator& world);
};

const std::vector<CollectiveCase>& collective_cases();

}  // namespace hidup
