// Cases that every implementation of Communicator must pass, on any number of ranks. All ranks run
// a case together, each on its own communicator.
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

// Sets the device that each case creates and computes on; call it before the first case. The
// default is the host's first device.
void set_case_device(const DeviceOptions& options);

}  // namespace hidup
