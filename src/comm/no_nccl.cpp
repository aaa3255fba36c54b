// Definitions for binaries without CUDA.
#include "comm/nccl_communicator.h"
#include "core/check.h"

namespace hidup {

bool has_nccl() {
  return false;
}

std::vector<LibraryVersion> nccl_libraries() {
  return {};
}

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator>,
                                                     const std::string&, int, const NcclOptions&,
                                                     Watchdog&) {
  fail(ExitCode::unavailable, "this binary was built without NCCL");
}

}  // namespace hidup
