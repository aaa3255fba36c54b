#include <nvtx3/nvToolsExt.h>

#include "device/annotate.h"

namespace hidup {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("hidup");
  return handle;
}

}  // namespace

NamedRange::NamedRange(const std::string& name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &attributes);
}

NamedRange::~NamedRange() {
  nvtxDomainRangePop(domain());
}

}  // namespace hidup
