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

void copy_elements(Stream& stream, void* to, const void* from, int64_t count, DType dtype) {
  if (count > 0) {
    stream.copy(to, from, count * size_of(dtype));
  }
}

}  // namespace hidup
