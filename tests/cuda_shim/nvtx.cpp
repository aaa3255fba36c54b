// Ranges that threads push and pop, with calls of the runtime between them.
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "state.h"

struct CudaShimDomain {
  std::string name;
};

namespace {

thread_local int open_ranges = 0;

void write_line(const std::string& line) {
  static std::FILE* const file = [] {
    const char* prefix = std::getenv("CUDA_SHIM_NVTX");
    return prefix == nullptr
               ? nullptr
               : std::fopen((std::string(prefix) + "." + std::to_string(getpid())).c_str(), "w");
  }();
  static std::mutex mutex;
  if (file != nullptr) {
    const std::lock_guard lock(mutex);
    std::fprintf(file, "%s\n", line.c_str());
  }
}

}  // namespace

void cuda_shim::trace(const char* call) {
  write_line(std::string("call ") + call);
}

nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  return new CudaShimDomain{name};
}

int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (domain == nullptr || event->version != NVTX_VERSION ||
      event->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE ||
      event->messageType != NVTX_MESSAGE_TYPE_ASCII || event->message.ascii == nullptr) {
    return -1;
  }
  write_line("push " + domain->name + ": " + event->message.ascii);
  return open_ranges++;
}

int nvtxDomainRangePop(nvtxDomainHandle_t) {
  write_line("pop");
  return --open_ranges;
}
