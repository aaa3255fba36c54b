// How many elements every rank has a part of in a device collective. For those
// who implement Communicator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "device/device.h"

namespace hidup {

// Throws Error(internal) unless there is one count per rank, none negative.
// `doing`: "all_gather of x".
void check_counts(const std::vector<int64_t>& counts, int ranks, const std::string& doing);

// Where each rank's part starts, in elements; one more entry with their sum.
std::vector<int64_t> starts_of(const std::vector<int64_t>& counts);

// What a rank of a move does: whether it receives, and the ranks that it sends to.
struct MovePart {
  bool receives = false;
  std::vector<int> sends_to;
};
// Throws Error(internal) unless there is one source per rank, a rank of the group that receives
// nothing itself.
MovePart move_part(const std::vector<int>& sources, int rank, int ranks, const std::string& doing);

// What a collective of one rank does: copies `count` elements in stream order.
void copy_elements(Stream& stream, void* to, const void* from, int64_t count, DType dtype);

}  // namespace hidup
