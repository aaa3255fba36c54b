// The library behind the matrix products.
#pragma once

#include <string>

namespace hidup::kernels {

// Name and version as loaded: "oneDNN 2.6.3".
std::string matmul_library_version();

}  // namespace hidup::kernels
