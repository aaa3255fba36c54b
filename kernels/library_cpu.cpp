#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/library.h"

namespace hidup::kernels {

std::string matmul_library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace hidup::kernels
