// Marks of a group's collectives, from the device to the host. For the sources of this folder only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace hidup {

// Lives in host memory. One word identifies a collective: its number in the group, which starts at
// 1, followed by the number of its name.
struct NcclMarks {
  static constexpr int kNameBits = 20;
  volatile uint64_t came = 0;   // the last collective that began
  volatile uint64_t ended = 0;  // the last collective that ended
  volatile uint64_t order = 0;  // index of `ended` among all that ended on this rank
};

// Marks in stream order that the next collective begins, or that the last one has ended. `count`:
// the number of collectives that began, in device memory.
void mark_collective(cudaStream_t stream, NcclMarks* marks, uint64_t* count, uint64_t name,
                     bool comes);

}  // namespace hidup
