#include "kernels/matmul.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/bias.h"
#include "kernels/cpu_gelu.h"
#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"
#include "kernels/gelu.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

struct Tiles {
  int64_t rows;
  int64_t columns;
};

// The part of c that one thread computes at a time. It depends on the shape alone, as the
// rounding does. Larger tiles read a and b fewer times; large products keep enough tiles
// for 32 threads. With a transposed b tiles have at least 256 rows: oneDNN does not repack b for
// fewer.
Tiles tiles_of(MatmulShape shape) {
  Tiles tiles = {shape.transpose_b ? 256 : 128, 128};
  const auto count = [&](Tiles t) {
    return ceil_div(shape.m, t.rows) * ceil_div(shape.n, t.columns);
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
void for_each_tile(MatmulShape shape, Compute compute) {
  const Tiles tiles = tiles_of(shape);
  const int64_t across = ceil_div(shape.n, tiles.columns);
  const int64_t count = ceil_div(shape.m, tiles.rows) * across;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i / across * tiles.rows;
    const int64_t column = i % across * tiles.columns;
    compute(ResultTile{row, column, std::min(tiles.rows, shape.m - row),
                       std::min(tiles.columns, shape.n - column)});
  }
}

// The rows of op(a) and the columns of op(b) that a tile needs.
template <typename Element>
ConstMatrix<Element> rows_for(const ResultTile& tile, const Element* a, MatmulShape shape) {
  return {.data = a + (shape.transpose_a ? tile.row : tile.row * shape.lda()),
          .stride = shape.lda(),
          .transposed = shape.transpose_a};
}
template <typename Element>
ConstMatrix<Element> columns_for(const ResultTile& tile, const Element* b, MatmulShape shape) {
  return {.data = b + (shape.transpose_b ? tile.column * shape.ldb() : tile.column),
          .stride = shape.ldb(),
          .transposed = shape.transpose_b};
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
                 MatmulShape shape, const Epilogue<Element>& epilogue) noexcept {
  thread_local std::vector<float> memory;
  const int64_t first = tile.row * shape.ldc() + tile.column;
  float* sums = nullptr;
  int64_t stride = shape.ldc();
  if constexpr (std::is_same_v<Element, float>) {
    sums = (epilogue.input != nullptr ? epilogue.input : y) + first;
  } else {
    sums = scratch(memory, tile.rows * tile.columns);
    stride = tile.columns;
  }
  if (shape.k > 0) {
    gemm(tile.rows, tile.columns, shape.k, rows_for(tile, a, shape), columns_for(tile, b, shape),
         0.0F, sums, stride);
  }
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* const sums_of_row = sums + row * stride;
    if (shape.k == 0) {
      std::fill_n(sums_of_row, tile.columns, 0.0F);
    }
    const int64_t at = first + row * shape.ldc();
    finish_row(sums_of_row, epilogue, tile.column,
               epilogue.input != nullptr ? epilogue.input + at : nullptr, y + at, tile.columns);
  }
}

}  // namespace

template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulShape shape,
            bool accumulate) {
  check_size(shape);
  stream.enqueue([=] {
    if (shape.m == 0 || shape.n == 0) {
      return;
    }
    if (shape.k == 0) {
      std::fill_n(c, accumulate ? 0 : shape.c_span(), Result(0.0F));
      return;
    }
    for_each_tile(shape, [=](const ResultTile& tile) {
      gemm(tile.rows, tile.columns, shape.k, rows_for(tile, a, shape), columns_for(tile, b, shape),
           accumulate ? 1.0F : 0.0F, c + tile.row * shape.ldc() + tile.column, shape.ldc());
    });
  });
}

template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulShape shape,
                 const Epilogue<Element>& epilogue) {
  check_epilogue(shape, epilogue.bias, epilogue.activation, epilogue.input);
  stream.enqueue([=] {
    if (shape.m == 0 || shape.n == 0) {
      return;
    }
    for_each_tile(shape,
                  [=](const ResultTile& tile) { finish_tile(tile, a, b, y, shape, epilogue); });
  });
}

template <typename Element>
void matmul_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                          Element* c, MatmulShape shape) {
  check_gelu_backward(shape);
  matmul(stream, a, b, c, shape, false);
  gelu_backward(stream, x, c, c, shape.m * shape.n);
}

template <typename Element>
void matmul_sums(Stream& stream, const Element* a, const Element* b, float* c, MatmulShape shape,
                 Factor summed, float* sums, bool accumulate) {
  check_sums(shape);
  matmul(stream, a, b, c, shape, accumulate);
  if (summed == Factor::a) {
    bias_backward(stream, a, sums, shape.k, shape.m, accumulate, shape.lda());
  } else {
    bias_backward(stream, b, sums, shape.k, shape.n, accumulate, shape.ldb());
  }
}

#define INSTANTIATE(Element, Result) \
  template decltype(matmul<Element, Result>) matmul<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

#define INSTANTIATE(Element)                                                      \
  template decltype(matmul_bias<Element>) matmul_bias<Element>;                   \
  template decltype(matmul_gelu_backward<Element>) matmul_gelu_backward<Element>; \
  template decltype(matmul_sums<Element>) matmul_sums<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
