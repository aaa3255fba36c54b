#include "comm/nccl_marks.h"

#include "device/cuda_check.h"

namespace hidup {
namespace {

// Counts the collectives of all groups, which are on one stream at a time.
__device__ uint64_t g_ended = 0;

__global__ void mark_kernel(NcclMarks* marks, uint64_t* count, uint64_t name, bool comes) {
  if (comes) {
    marks->came = ++*count << NcclMarks::kNameBits | name;
  } else {
    marks->order = ++g_ended;
    __threadfence_system();  // a reader of the end sees its order, or a later one
    marks->ended = *count << NcclMarks::kNameBits | name;
  }
}

}  // namespace

void mark_collective(cudaStream_t stream, NcclMarks* marks, uint64_t* count, uint64_t name,
                     bool comes) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, mark_kernel, marks, count, name, comes),
             "the launch of a kernel");
}

}  // namespace hidup
