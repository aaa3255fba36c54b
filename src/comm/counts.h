// Counts of the elements of each rank in a device collective. For implementations of Communicator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "device/device.h"

namespace hidup {

// Throws Error(internal) unless each rank has a count >= 0. `doing`: "all_gather of x".
void check_counts(const std::vector<int64_t>& counts, int ranks, const std::string& doing);

// Returns the start of each rank's part in elements, and the sum of the counts as one more entry.
std::vector<int64_t> starts_of(const std::vector<int64_t>& counts);

// The part of a rank in a move: the ranks that it sends to, and true in `receives` if it receives.
struct MovePart {
  bool receives = false;
  std::vector<int> sends_to;
};
// Throws Error(internal) unless each rank has a source in the group that receives nothing itself.
MovePart move_part(const std::vector<int>& sources, int rank, int ranks, const std::string& doing);

// Copies `count` elements in stream order, as a collective of one rank does.
void copy_elements(Stream& stream, void* to, const void* from, int64_t count, DType dtype);

}  // namespace hidup
