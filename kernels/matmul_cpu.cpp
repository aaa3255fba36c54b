#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"

namespace hidup::kernels {
namespace {

struct Tiles {
  int64_t rows;
  int64_t columns;
};

// The part of c that one thread computes at a time. It depends on the shape alone, as the
// rounding does. Larger tiles read a and b fewer times; large products keep enough tiles
// for 32 threads. oneDNN does not repack a transposed b for few rows, hence 256 there.
Tiles tiles_of(MatmulSize size, bool transpose_b) {
  Tiles tiles = {transpose_b ? 256 : 128, 128};
  const auto count = [&](Tiles t) {
    return ceil_div(size.m, t.rows) * ceil_div(size.n, t.columns);
  };
  while (true) {
    Tiles larger = tiles;
    (tiles.rows <= tiles.columns ? larger.rows : larger.columns) *= 2;
    if (count(larger) < 32) {
      return tiles;
    }
    tiles = larger;
  }
}

}  // namespace

template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulSize size,
            bool transpose_a, bool transpose_b, bool accumulate) {
  stream.enqueue([=] {
    const auto [m, n, k] = size;
    if (m == 0 || n == 0) {
      return;
    }
    if (k == 0) {
      std::fill_n(c, accumulate ? 0 : m * n, Result(0.0F));
      return;
    }
    const Tiles tiles = tiles_of(size, transpose_b);
    const int64_t across = ceil_div(n, tiles.columns);
    const int64_t count = ceil_div(m, tiles.rows) * across;
#pragma omp parallel for schedule(static)
    for (int64_t tile = 0; tile < count; ++tile) {
      const int64_t row = tile / across * tiles.rows;
      const int64_t column = tile % across * tiles.columns;
      gemm<Element, Element, Result>(std::min(tiles.rows, size.m - row),
                                     std::min(tiles.columns, size.n - column), size.k,
                                     {.data = a + (transpose_a ? row : row * size.k),
                                      .stride = transpose_a ? size.m : size.k,
                                      .transposed = transpose_a},
                                     {.data = b + (transpose_b ? column * size.k : column),
                                      .stride = transpose_b ? size.k : size.n,
                                      .transposed = transpose_b},
                                     accumulate ? 1.0F : 0.0F, c + row * size.n + column, size.n);
    }
  });
}

#define INSTANTIATE(Element, Result) \
  template decltype(matmul<Element, Result>) matmul<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
