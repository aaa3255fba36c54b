#include <cublasLt.h>
#include <fmt/core.h>

#include "kernels/library.h"

namespace hidup::kernels {
namespace {

// Returns the text of a version number: "12.4.5" for 120405.
std::string version_text(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

LibraryVersion matmul_library() {
  return {"cuBLASLt", version_text(CUBLAS_VERSION), version_text(cublasLtGetVersion())};
}

std::string matmul_library_version() {
  const LibraryVersion library = matmul_library();
  return library.name + " " + library.loaded;
}

}  // namespace hidup::kernels
