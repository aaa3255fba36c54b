#include <cublasLt.h>
#include <fmt/core.h>

#include "kernels/library.h"

namespace hidup::kernels {

std::string matmul_library_version() {
  const size_t version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace hidup::kernels
