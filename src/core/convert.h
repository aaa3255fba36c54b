// Conversion of elements from one floating type to another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/with_type.h"

namespace hidup {

// Converts elements from one floating type to another and rounds to the nearest value.
inline std::vector<std::byte> converted(std::vector<std::byte> data, DType from, DType to) {
  if (from == to) {
    return data;
  }
  return with_floating_type(from, [&](auto source) {
    return with_floating_type(to, [&](auto target) {
      using Source = decltype(source);
      using Target = decltype(target);
      const auto* elements = reinterpret_cast<const Source*>(data.data());
      const size_t count = data.size() / sizeof(Source);
      std::vector<std::byte> result(count * sizeof(Target));
      std::transform(elements, elements + count, reinterpret_cast<Target*>(result.data()),
                     [](Source element) { return Target(static_cast<float>(element)); });
      return result;
    });
  });
}

}  // namespace hidup
