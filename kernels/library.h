// The library behind the matrix products.
#pragma once

#include <string>

#include "core/version.h"

namespace hidup::kernels {

LibraryVersion matmul_library();

// Returns name and version as loaded: "oneDNN 2.6.3".
std::string matmul_library_version();

}  // namespace hidup::kernels
