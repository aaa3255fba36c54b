// Only the device knows the counts, so the products multiply unused rows, which are zeros, too.
#include "kernels/expert_matmul.h"

#include "kernels/cuda_gemm.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// y = x op(w) of every expert, whose rows in all sequences are one matrix. Rows: k in x, n in y.
template <typename Element>
void multiply(Stream& stream, const Element* x, const Element* w, Element* y,
              const ExpertSize& size, int64_t k, int64_t n, bool transpose_w) {
  const int64_t rows = size.batch * size.capacity;
  const Product product = {.shape = {.m = rows, .n = n, .k = k, .transpose_b = transpose_w},
                           .batch = {size.experts, rows * k, k * n, rows * n}};
  gemm(stream, x, w, y, product, false);
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
  const auto& [experts, batch, capacity, k, n] = args.size;
  const int64_t rows = batch * capacity;
  const Product product = {.shape = {.m = k, .n = n, .k = rows, .transpose_a = true},
                           .batch = {experts, rows * k, rows * n, k * n}};
  gemm(stream, args.x, args.dy, args.dw, product, args.accumulate);
}

HIDUP_INSTANTIATE(expert_matmul);
HIDUP_INSTANTIATE(expert_matmul_backward_input);
HIDUP_INSTANTIATE(expert_matmul_backward_weight);

}  // namespace hidup::kernels
