// The counts are known on the device alone, so nothing is skipped: rows that are not in use are
// multiplied as the zeros that they are.
#include "kernels/expert_matmul.h"

#include "kernels/cuda_gemm.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// The rows that an expert without neighbours has in all sequences are one matrix.
ExpertSize joined(const ExpertSize& size) {
  return size.experts == 1 ? ExpertSize{1, 1, size.batch * size.capacity, size.k, size.n} : size;
}

// y = x op(w) of every sequence and expert, in as few batches as strides allow: over the sequences
// of an expert or over the experts of a sequence. x has rows of k, y of n.
template <typename Element>
void multiply(Stream& stream, const Element* x, const Element* w, Element* y,
              const ExpertSize& size, int64_t k, int64_t n, bool transpose_w) {
  const ExpertSize all = joined(size);
  const int64_t rows = all.capacity;
  Product product = {.shape = {.m = rows, .n = n, .k = k, .transpose_b = transpose_w}, .batch = {}};
  if (all.experts <= all.batch) {
    product.batch = {all.batch, all.experts * rows * k, 0, all.experts * rows * n};
    for (int64_t e = 0; e < all.experts; ++e) {
      gemm(stream, x + e * rows * k, w + e * k * n, y + e * rows * n, product, false);
    }
  } else {
    product.batch = {all.experts, rows * k, k * n, rows * n};
    for (int64_t b = 0; b < all.batch; ++b) {
      const int64_t first = b * all.experts * rows;
      gemm(stream, x + first * k, w, y + first * n, product, false);
    }
  }
}

}  // namespace

template <typename Element>
void expert_matmul(Stream& stream, const Element* x, const Element* w, const int32_t*, Element* y,
                   ExpertSize size) {
  check_size(size);
  multiply(stream, x, w, y, size, size.k, size.n, false);
}

template <typename Element>
void expert_matmul_backward_input(Stream& stream, const Element* dy, const Element* w,
                                  const int32_t*, Element* dx, ExpertSize size) {
  check_size(size);
  multiply(stream, dy, w, dx, size, size.n, size.k, true);
}

template <typename Element>
void expert_matmul_backward_weight(Stream& stream,
                                   const ExpertMatmulBackwardWeight<Element>& args) {
  check_size(args.size);
  const auto [batch, experts, capacity, k, n] = joined(args.size);
  const int64_t rows = batch == 0 ? 0 : capacity;
  const Product product = {.shape = {.m = k, .n = n, .k = rows, .transpose_a = true},
                           .batch = {experts, rows * k, rows * n, k * n}};
  gemm(stream, args.x, args.dy, args.dw, product, args.accumulate);
  for (int64_t b = 1; b < batch; ++b) {
    const int64_t first = b * experts * rows;
    gemm(stream, args.x + first * k, args.dy + first * n, args.dw, product, true);
  }
}

#define INSTANTIATE(Element)                                                                      \
  template decltype(expert_matmul<Element>) expert_matmul<Element>;                               \
  template decltype(expert_matmul_backward_input<Element>) expert_matmul_backward_input<Element>; \
  template decltype(expert_matmul_backward_weight<Element>) expert_matmul_backward_weight<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
