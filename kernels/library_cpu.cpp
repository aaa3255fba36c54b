#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/library.h"

namespace hidup::kernels {

LibraryVersion matmul_library() {
  const dnnl_version_t* loaded = dnnl_version();
  return {"oneDNN",
          fmt::format("{}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH),
          fmt::format("{}.{}.{}", loaded->major, loaded->minor, loaded->patch)};
}

std::string matmul_library_version() {
  const LibraryVersion library = matmul_library();
  return library.name + " " + library.loaded;
}

}  // namespace hidup::kernels
