// Reports of faults in kernels, for tests of the shim and for developers.
#pragma once

#include <string>

namespace cuda_shim {

// Returns the first fault since the last cudaDeviceReset(), empty if there was none.
std::string fault();

}  // namespace cuda_shim
