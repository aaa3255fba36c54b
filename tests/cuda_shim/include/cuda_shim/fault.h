// What went wrong in a kernel; for tests of the shim and for a person.
#pragma once

#include <string>

namespace cuda_shim {

// The first fault since the last cudaDeviceReset(), empty if there was none.
std::string fault();

}  // namespace cuda_shim
