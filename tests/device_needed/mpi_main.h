// main() of a test binary whose ranks are MPI's.
#pragma once

#include <gtest/gtest.h>

#include "comm/mpi_session.h"
#include "device_needed/device_needed.h"

namespace hidup {

// Returns run(mpi)'s result, between the start and the end of MPI; kSkipped without a device.
template <typename Run>
int mpi_main(int& argc, char**& argv, Run run) {
  testing::InitGoogleTest(&argc, argv);
  if (without_device()) {
    return kSkipped;
  }
  MpiSession mpi(&argc, &argv);
  return run(mpi);
}

}  // namespace hidup
