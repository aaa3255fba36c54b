// Which bytes of an arena are taken, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hidup {

// Bytes [begin, end), and others.
class ByteRanges {
 public:
  void add(int64_t begin, int64_t end);
  bool empty() const { return ranges_.empty(); }
  // Bytes [begin, end) that are none of these.
  struct Gap {
    int64_t begin = 0, end = 0;
  };
  // From the least number from `at` on from which that many bytes are none of these.
  Gap gap_from(int64_t at, int64_t bytes) const;

 private:
  struct Range {
    int64_t begin = 0, end = 0;
  };
  std::vector<Range> ranges_;  // disjoint and not touching, rising
};

// Ranges to keep clear of, and the end of their gap that free_of_all() found last.
struct InTheWay {
  const ByteRanges* ranges = nullptr;
  int64_t gap_end = std::numeric_limits<int64_t>::min();
};

// Bytes that are taken at some of the moments 0, 1, ..., in a segment tree (de Berg et al.,
// "Computational Geometry", section 10.3): adding and asking visit O(log moments) ranges.
class OccupiedBytes {
 public:
  explicit OccupiedBytes(size_t moments) : moments_(moments), nodes_(2 * moments) {}

  // Taken from `begin` until before `end`; asked for one moment.
  void add_during(size_t begin, size_t end, int64_t first_byte, int64_t end_byte);
  void append_at(size_t moment, std::vector<InTheWay>& ranges) const;

  // The other way round: taken at one moment, asked for all from `begin` until before `end`. A
  // structure serves for one of the two only.
  void add_at(size_t moment, int64_t first_byte, int64_t end_byte);
  void append_during(size_t begin, size_t end, std::vector<InTheWay>& ranges) const;

 private:
  size_t moments_;
  std::vector<ByteRanges> nodes_;  // the leaves are the second half; i's parent is i / 2
};

// The least number from `at` on from which that many bytes are in none of the ranges.
int64_t free_of_all(std::vector<InTheWay>& ranges, int64_t at, int64_t bytes);

}  // namespace hidup
