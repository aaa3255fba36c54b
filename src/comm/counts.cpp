#include "comm/counts.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace hidup {

void check_counts(const std::vector<int64_t>& counts, int ranks, const std::string& doing) {
  check(counts.size() == static_cast<size_t>(ranks), "{}: {} counts for {} ranks", doing,
        counts.size(), ranks);
  check(std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count >= 0; }),
        "{}: a count is negative", doing);
}

std::vector<int64_t> starts_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> starts(counts.size() + 1);
  std::partial_sum(counts.begin(), counts.end(), starts.begin() + 1);
  return starts;
}

MovePart move_part(const std::vector<int>& sources, int rank, int ranks, const std::string& doing) {
  check(sources.size() == static_cast<size_t>(ranks), "{}: {} sources for {} ranks", doing,
        sources.size(), ranks);
  MovePart part{.receives = sources[static_cast<size_t>(rank)] != rank, .sends_to = {}};
  for (int to = 0; to < ranks; ++to) {
    const int from = sources[static_cast<size_t>(to)];
    check(from >= 0 && from < ranks && sources[static_cast<size_t>(from)] == from,
          "{}: rank {} gets from rank {}, which has nothing itself", doing, to, from);
    if (from == rank && to != rank) {
      part.sends_to.push_back(to);
    }
  }
  return part;
}

void copy_elements(Stream& stream, void* to, const void* from, int64_t count, DType dtype) {
  if (count > 0 && to != from) {
    stream.copy(to, from, count * size_of(dtype));
  }
}

}  // namespace hidup
