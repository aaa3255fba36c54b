#include "kernels/expert_matmul.h"

#include <vector>

#include "kernels/cpu_expert_rows.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_product.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// y = x op(w) of every expert; x has rows of k, y of n.
template <typename Element>
struct ExpertProducts {
  const Element* x;
  const Element* w;
  Element* y;
  int64_t k;
  int64_t n;
  bool transposed;
};

// Multiplies the used rows, and writes zeros to the others.
template <typename Element>
void multiply(const ExpertProducts<Element>& p, const int32_t* counts, const ExpertSize& size) {
  clear_unused(p.y, p.n, counts, size);
  const auto finish_at = [y = p.y, n = p.n](const int64_t* places) {
    return for_tiles([=](const ResultTile& tile, const float* sums, int64_t stride) {
      for (int64_t row = 0; row < tile.rows; ++row) {
        narrow(sums + row * stride, tile.columns, y + places[tile.row + row] * n + tile.column);
      }
    });
  };
  const RowsInUse rows(counts, size);
  std::vector<Product<Element>> products;
  for (int64_t e = 0; e < size.experts; ++e) {
    products.push_back(
        {.a = p.x,
         .b = p.w + e * p.k * p.n,
         .shape = {.m = rows.count(e), .n = p.n, .k = p.k, .transpose_b = p.transposed},
         .a_places = rows.places(e),
         .finish = finish_at(rows.places(e))});
  }
  compute(products);
}

// dw (+)= x^T dy of every expert.
template <typename Element>
void multiply_transposed(const ExpertMatmulBackwardWeight<Element>& args) {
  const ExpertSize& size = args.size;
  const RowsInUse rows(args.counts, size);
  std::vector<Product<Element>> products;
  for (int64_t e = 0; e < size.experts; ++e) {
    products.push_back(
        {.a = args.x,
         .b = args.dy,
         .shape = {.m = size.k, .n = size.n, .k = rows.count(e), .transpose_a = true},
         .a_places = rows.places(e),
         .b_places = rows.places(e),
         .sums = args.dw + e * size.k * size.n,
         .accumulate = args.accumulate});
  }
  compute(products);
}

}  // namespace

template <typename Element>
void expert_matmul(Stream& stream, const Element* x, const Element* w, const int32_t* counts,
                   Element* y, ExpertSize size) {
  check_size(size);
  stream.enqueue([=] {
    multiply(
        ExpertProducts<Element>{
            .x = x, .w = w, .y = y, .k = size.k, .n = size.n, .transposed = false},
        counts, size);
  });
}

template <typename Element>
void expert_matmul_backward_input(Stream& stream, const Element* dy, const Element* w,
                                  const int32_t* counts, Element* dx, ExpertSize size) {
  check_size(size);
  stream.enqueue([=] {
    multiply(
        ExpertProducts<Element>{
            .x = dy, .w = w, .y = dx, .k = size.n, .n = size.k, .transposed = true},
        counts, size);
  });
}

template <typename Element>
void expert_matmul_backward_weight(Stream& stream,
                                   const ExpertMatmulBackwardWeight<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] { multiply_transposed(args); });
}

HIDUP_INSTANTIATE(expert_matmul);
HIDUP_INSTANTIATE(expert_matmul_backward_input);
HIDUP_INSTANTIATE(expert_matmul_backward_weight);

}  // namespace hidup::kernels
