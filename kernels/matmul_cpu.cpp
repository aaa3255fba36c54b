#include "kernels/matmul.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu_gelu.h"
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

struct ResultTile {
  int64_t row, column;
  int64_t rows, columns;
};

// compute(tile) for all of c; it may not throw.
template <typename Compute>
void for_each_tile(MatmulSize size, bool transpose_b, Compute compute) {
  const Tiles tiles = tiles_of(size, transpose_b);
  const int64_t across = ceil_div(size.n, tiles.columns);
  const int64_t count = ceil_div(size.m, tiles.rows) * across;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i / across * tiles.rows;
    const int64_t column = i % across * tiles.columns;
    compute(ResultTile{row, column, std::min(tiles.rows, size.m - row),
                       std::min(tiles.columns, size.n - column)});
  }
}

// The rows of op(a) and the columns of op(b) that a tile needs.
template <typename Element>
ConstMatrix<Element> rows_for(const ResultTile& tile, const Element* a, MatmulSize size,
                              bool transpose) {
  return {.data = a + (transpose ? tile.row : tile.row * size.k),
          .stride = transpose ? size.m : size.k,
          .transposed = transpose};
}
template <typename Element>
ConstMatrix<Element> columns_for(const ResultTile& tile, const Element* b, MatmulSize size,
                                 bool transpose) {
  return {.data = b + (transpose ? tile.column * size.k : tile.column),
          .stride = transpose ? size.k : size.n,
          .transposed = transpose};
}

// A row of a tile: y = activate(sums + bias), and the argument where `input` is not null; all of
// them may lie in one place.
template <typename Element, typename Activate>
void finish_row(const float* sums, const Element* bias, Element* input, Element* y, int64_t n,
                Activate activate) {
  if (input == nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      y[j] = activate(sums[j] + bias[j]);
    }
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float at = sums[j] + bias[j];
    input[j] = at;
    y[j] = activate(at);
  }
}

template <typename Element>
void finish_row(const float* sums, const Epilogue<Element>& epilogue, int64_t column,
                Element* input, Element* y, int64_t n) {
  const Element* bias = epilogue.bias + column;
  switch (epilogue.activation) {
    case Activation::none:
      return finish_row(sums, bias, input, y, n, [](float x) { return x; });
    case Activation::relu:
      return finish_row(sums, bias, input, y, n, [](float x) { return x < 0.0F ? 0.0F : x; });
    case Activation::gelu:
      return finish_row(sums, bias, input, y, n, [](float x) { return gelu(x); });
  }
}

// The product is summed where the input of the activation goes, or else y, if they are floats.
template <typename Element>
void finish_tile(const ResultTile& tile, const Element* a, const Element* b, Element* y,
                 MatmulSize size, bool transpose_b, const Epilogue<Element>& epilogue) noexcept {
  thread_local std::vector<float> memory;
  const int64_t first = tile.row * size.n + tile.column;
  float* sums = nullptr;
  int64_t stride = size.n;
  if constexpr (std::is_same_v<Element, float>) {
    sums = (epilogue.input != nullptr ? epilogue.input : y) + first;
  } else {
    sums = scratch(memory, tile.rows * tile.columns);
    stride = tile.columns;
  }
  if (size.k > 0) {
    gemm(tile.rows, tile.columns, size.k, rows_for(tile, a, size, false),
         columns_for(tile, b, size, transpose_b), 0.0F, sums, stride);
  }
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* const sums_of_row = sums + row * stride;
    if (size.k == 0) {
      std::fill_n(sums_of_row, tile.columns, 0.0F);
    }
    const int64_t at = first + row * size.n;
    finish_row(sums_of_row, epilogue, tile.column,
               epilogue.input != nullptr ? epilogue.input + at : nullptr, y + at, tile.columns);
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
    for_each_tile(size, transpose_b, [=](const ResultTile& tile) {
      gemm(tile.rows, tile.columns, size.k, rows_for(tile, a, size, transpose_a),
           columns_for(tile, b, size, transpose_b), accumulate ? 1.0F : 0.0F,
           c + tile.row * size.n + tile.column, size.n);
    });
  });
}

template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulSize size,
                 bool transpose_b, const Epilogue<Element>& epilogue) {
  stream.enqueue([=] {
    if (size.m == 0 || size.n == 0) {
      return;
    }
    for_each_tile(size, transpose_b, [=](const ResultTile& tile) {
      finish_tile(tile, a, b, y, size, transpose_b, epilogue);
    });
  });
}

#define INSTANTIATE(Element, Result) \
  template decltype(matmul<Element, Result>) matmul<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

#define INSTANTIATE(Element) template decltype(matmul_bias<Element>) matmul_bias<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
