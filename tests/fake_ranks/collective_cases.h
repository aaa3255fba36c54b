// What holds for every implementation of Communicator, on any number of ranks. All
// ranks run a case together, each on its own communicator.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "device/device.h"

namespace hidup {

struct CollectiveCase {
  const char* name;
  void (*run)(Communicator& world);
};

const std::vector<CollectiveCase>& collective_cases();

// The device that the cases compute on, each time anew; before the first case. Without this the
// first one of the host.
void set_case_device(const DeviceOptions& options);

}  // namespace hidup
