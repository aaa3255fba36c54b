// Decoding of routing entries (route.h), for kernels.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "kernels/dispatch.h"

namespace hidup::kernels {

// Returns the expert that an entry chose, whether it got a slot or was dropped.
HIDUP_HOST_DEVICE inline int64_t expert_of(int32_t entry, int64_t capacity) {
  return entry < 0 ? -(int64_t{entry} + 1) : entry / static_cast<int32_t>(capacity);
}

// Returns the rows of a round among all rows of an expert and sequence (RoundCounts).
HIDUP_HOST_DEVICE inline int32_t rows_of_round(int32_t all, int64_t first, int64_t rows) {
  const int64_t behind = all - first;
  return static_cast<int32_t>(behind < 0 ? 0 : behind < rows ? behind : rows);
}

// Returns the rows of a buffer with slots, [experts, batch, capacity]; the room of a packed one.
HIDUP_HOST_DEVICE inline int64_t rows_of(const DispatchSize& size) {
  return size.counts != nullptr ? size.rows : size.experts * size.batch * size.capacity;
}

// Returns the row of the buffer that an entry of sequence b names, or -1 if it is not here.
// `starts`: the first row of every [expert, sequence] in a packed buffer, otherwise null.
HIDUP_HOST_DEVICE inline int64_t row_of(int32_t entry, int64_t b, const DispatchSize& size,
                                        const int32_t* starts) {
  const int64_t expert = entry < 0 ? -1 : expert_of(entry, size.capacity) - size.first_expert;
  if (expert < 0 || expert >= size.experts) {
    return -1;
  }
  const int64_t slot = entry % static_cast<int32_t>(size.capacity) - size.first_slot;
  if (slot < 0 || slot >= size.slots) {
    return -1;
  }
  const int64_t rows = expert * size.batch + b;
  return (starts != nullptr ? starts[rows] : rows * size.capacity) + slot;
}

}  // namespace hidup::kernels
