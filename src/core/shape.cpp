#include "core/shape.h"

#include <fmt/ranges.h>

#include <functional>
#include <numeric>

namespace hidup {

int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace hidup
