// What the device tells the host of a group's collectives. For the sources of this folder only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace hidup {

// In memory of the host. A collective is its number in the group, the first is 1, and behind it
// that of its name, in one word.
struct NcclMarks {
  static constexpr int kNameBits = 20;
  volatile uint64_t came = 0;   // the last that came
  volatile uint64_t ended = 0;  // the last that ended
  volatile uint64_t order = 0;  // of that one among all that ended on this rank
};

// Marks in the order of the stream that the next collective comes, or that the last one has ended.
// `count`: of those that came, in memory of the device.
void mark_collective(cudaStream_t stream, NcclMarks* marks, uint64_t* count, uint64_t name,
                     bool comes);

}  // namespace hidup
