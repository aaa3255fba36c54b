// Extents of a tensor, outermost dimension first (row-major storage).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hidup {

using Shape = std::vector<int64_t>;

// Returns the number of elements; 1 for a scalar (an empty shape).
int64_t elements(const Shape& shape);

// Formats a shape as "[8, 64, 128]".
std::string to_string(const Shape& shape);

}  // namespace hidup
