// Numbers for values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hidup {

// Returns a number for each value, the same one for equal values, in order of appearance.
template <typename T>
std::vector<int64_t> numbered(const std::vector<T>& values) {
  std::vector<T> seen;
  std::vector<int64_t> numbers;
  for (const T& value : values) {
    const auto found = std::ranges::find(seen, value);
    numbers.push_back(found - seen.begin());
    if (found == seen.end()) {
      seen.push_back(value);
    }
  }
  return numbers;
}

}  // namespace hidup
