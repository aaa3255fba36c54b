#include "kernels/matmul.h"

#include <type_traits>

#include "kernels/activations.h"
#include "kernels/bias.h"
#include "kernels/cpu_gelu.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_product.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// c (+)= sums
template <typename Element>
void round_row(const float* sums, Element* c, int64_t n, bool accumulate) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    c[j] = accumulate ? sums[j] + c[j] : sums[j];
  }
}

// c = sums gelu'(x)
template <typename Element>
void multiply_row(const float* sums, const Element* x, Element* c, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    c[j] = sums[j] * gelu_derivative(x[j]);
  }
}

// Finishes a row of a tile: y = activate(sums + bias), and the argument unless `input` is null; all
// of them may be in one place.
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

// Computes the product; finish(tile, sums, stride) makes the result of it. Floats are summed at
// `place`, the memory of the result or of other output of finish().
template <typename Element, typename Finish>
void multiply(const Element* a, const Element* b, Element* place, const MatmulShape& shape,
              Finish finish) {
  float* sums = nullptr;
  if constexpr (std::is_same_v<Element, float>) {
    sums = place;
  }
  compute<Element>({{.a = a, .b = b, .shape = shape, .sums = sums, .finish = for_tiles(finish)}});
}

}  // namespace

template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulShape shape,
            bool accumulate) {
  check_size(shape);
  stream.enqueue([=] {
    if constexpr (std::is_same_v<Result, float>) {
      compute<Element>({{.a = a,
                         .b = b,
                         .shape = shape,
                         .sums = c,
                         .accumulate = accumulate,
                         .finish = nullptr}});
    } else {
      multiply(a, b, c, shape, [=](const ResultTile& tile, const float* sums, int64_t stride) {
        for (int64_t row = 0; row < tile.rows; ++row) {
          round_row(sums + row * stride, c + (tile.row + row) * shape.ldc() + tile.column,
                    tile.columns, accumulate);
        }
      });
    }
  });
}

template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulShape shape,
                 const Epilogue<Element>& epilogue) {
  check_epilogue(shape, epilogue.bias, epilogue.activation, epilogue.input);
  stream.enqueue([=] {
    const auto finish = [=](const ResultTile& tile, const float* sums, int64_t stride) {
      for (int64_t row = 0; row < tile.rows; ++row) {
        const int64_t at = (tile.row + row) * shape.ldc() + tile.column;
        finish_row(sums + row * stride, epilogue, tile.column,
                   epilogue.input != nullptr ? epilogue.input + at : nullptr, y + at, tile.columns);
      }
    };
    multiply(a, b, epilogue.input != nullptr ? epilogue.input : y, shape, finish);
  });
}

template <typename Element>
void matmul_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                          Element* c, MatmulShape shape) {
  constexpr int64_t kAhead = 6;  // rows of x, too short for the processor's own prefetching
  check_gelu_backward(shape);
  stream.enqueue([=] {
    multiply(a, b, c, shape, [=](const ResultTile& tile, const float* sums, int64_t stride) {
      for (int64_t row = 0; row < tile.rows; ++row) {
        const int64_t at = (tile.row + row) * shape.n + tile.column;
        prefetch(x + at + kAhead * shape.n, tile.columns);
        multiply_row(sums + row * stride, x + at, c + at, tile.columns);
      }
    });
  });
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

HIDUP_INSTANTIATE_PRODUCT(matmul);
HIDUP_INSTANTIATE(matmul_bias);
HIDUP_INSTANTIATE(matmul_gelu_backward);
HIDUP_INSTANTIATE(matmul_sums);

}  // namespace hidup::kernels
