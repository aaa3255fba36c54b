// main() of a test binary whose ranks are those of MPI.
#pragma once

#include <gtest/gtest.h>

#include "comm/mpi_session.h"
#include "device_needed/device_needed.h"

namespace hidup {

// What run(mpi) returns, between the start and the end of MPI; skipped where there is no device.
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
