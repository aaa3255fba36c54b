// Shapes for every test of products.
#pragma once

#include <initializer_list>
#include <vector>

#include "kernels/matmul.h"

namespace hidup::kernels::testing {

// Returns sizes within one tile, across several with odd edges, empty ones, and `more`.
inline std::vector<MatmulShape> product_shapes(std::initializer_list<MatmulShape> more) {
  std::vector<MatmulShape> shapes = {{1, 1, 1}, {3, 5, 7}, {300, 260, 129}, {0, 4, 3},
                                     {4, 0, 3}, {4, 3, 0}, {0, 0, 0}};
  shapes.insert(shapes.end(), more);
  return shapes;
}

}  // namespace hidup::kernels::testing
