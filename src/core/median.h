// The median, and the spread around it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
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

// Returns the standard deviation of normal numbers with this median distance from their median, or
// 0 for no values.
inline double spread(std::vector<double> values) {
  constexpr double kNormal = 1.4826;
  const double centre = median(values);
  for (double& value : values) {
    value = std::abs(value - centre);
  }
  return kNormal * median(std::move(values));
}

}  // namespace hidup
