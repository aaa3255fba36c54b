// The calls of NVTX that hidup uses. With the environment variable CUDA_SHIM_NVTX=PREFIX a process
// writes its ranges to PREFIX.<process id>, as lines "push NAME" or "pop".
#pragma once

#include <cstdint>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE (static_cast<uint16_t>(sizeof(nvtxEventAttributes_t)))

enum nvtxMessageType_t { NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1 };

union nvtxMessageValue_t {
  const char* ascii;
  const wchar_t* unicode;
};

struct nvtxEventAttributes_t {
  uint16_t version;
  uint16_t size;
  int32_t messageType;
  nvtxMessageValue_t message;
};

struct CudaShimDomain;
using nvtxDomainHandle_t = CudaShimDomain*;

nvtxDomainHandle_t nvtxDomainCreateA(const char* name);
// Returns the number of ranges open before, or a negative number where the event is invalid.
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event);
// Returns the number of ranges left, or a negative number where none was open.
int nvtxDomainRangePop(nvtxDomainHandle_t domain);
