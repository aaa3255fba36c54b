// The median.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hidup {

// Returns the median (of an even number of values the lower middle one), or 0 for no values.
inline double median(std::vector<double> values) {
  if (values.empty()) {
    return 0.0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace hidup
