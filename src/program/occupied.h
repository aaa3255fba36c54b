// The occupied bytes of an arena over time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hidup {

// A set of byte ranges [begin, end).
class ByteRanges {
 public:
  void add(int64_t begin, int64_t end);
  bool empty() const { return ranges_.empty(); }
  // Bytes [begin, end) outside the set.
  struct Gap {
    int64_t begin = 0, end = 0;
  };
  // Returns the first gap, from byte `at` on, of at least `bytes` bytes.
  Gap gap_from(int64_t at, int64_t bytes) const;

 private:
  struct Range {
    int64_t begin = 0, end = 0;
  };
  std::vector<Range> ranges_;  // disjoint, not touching, rising
};

// Ranges to avoid, and the end of the last gap that free_of_all() found in them.
struct InTheWay {
  const ByteRanges* ranges = nullptr;
  int64_t gap_end = std::numeric_limits<int64_t>::min();
};

// The occupied bytes at moments 0, 1, ..., in a segment tree (de Berg et al., "Computational
// Geometry", section 10.3). Adding and asking visit O(log moments) ranges.
class OccupiedBytes {
 public:
  explicit OccupiedBytes(size_t moments) : moments_(moments), nodes_(2 * moments) {}

  // These add bytes for the moments [begin, end), and ask for one moment.
  void add_during(size_t begin, size_t end, int64_t first_byte, int64_t end_byte);
  void append_at(size_t moment, std::vector<InTheWay>& ranges) const;

  // These add bytes for one moment, and ask for all moments [begin, end). A structure serves one of
  // the two pairs only.
  void add_at(size_t moment, int64_t first_byte, int64_t end_byte);
  void append_during(size_t begin, size_t end, std::vector<InTheWay>& ranges) const;

 private:
  size_t moments_;
  std::vector<ByteRanges> nodes_;  // the leaves are the second half; the parent of node i is i / 2
};

// Returns the first place, from byte `at` on, of `bytes` bytes that are in none of the ranges.
int64_t free_of_all(std::vector<InTheWay>& ranges, int64_t at, int64_t bytes);

}  // namespace hidup
