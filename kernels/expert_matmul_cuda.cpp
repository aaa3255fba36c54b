// Only the device knows the counts, so the library's products multiply unused rows, which are
// zeros, too. Packed rows have a kernel of ours.
#include "kernels/expert_matmul.h"

#include "kernels/cuda_gemm.h"
#include "kernels/cuda_grouped_product.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

template <typename Element>
void multiply(Stream& stream, const GroupedProduct<Element>& of, const int32_t* counts,
              const ExpertSize& size) {
  if (size.packed) {
    grouped_product(stream, of, counts, size);
    return;
  }
  // An expert's rows in all sequences are one matrix.
  const int64_t rows = size.batch * size.capacity;
  const Product product = {
      .shape = {.m = rows, .n = of.n, .k = of.k, .transpose_b = of.transpose_w},
      .batch = {size.experts, rows * of.k, of.k * of.n, rows * of.n}};
  gemm(stream, of.x, of.w, of.y, product, false);
}

}  // namespace

template <typename Element>
void expert_matmul(Stream& stream, const Element* x, const Element* w, const int32_t* counts,
                   Element* y, ExpertSize size) {
  check_size(size);
  multiply(stream, GroupedProduct<Element>{x, w, y, size.k, size.n, false}, counts, size);
}

template <typename Element>
void expert_matmul_backward_input(Stream& stream, const Element* dy, const Element* w,
                                  const int32_t* counts, Element* dx, ExpertSize size) {
  check_size(size);
  multiply(stream, GroupedProduct<Element>{dy, w, dx, size.n, size.k, true}, counts, size);
}

template <typename Element>
void expert_matmul_backward_weight(Stream& stream,
                                   const ExpertMatmulBackwardWeight<Element>& args) {
  const ExpertSize& size = args.size;
  check_size(size);
  if (size.packed) {
    grouped_weight_gradient(stream, args);
    return;
  }
  const int64_t rows = size.batch * size.capacity;
  const Product product = {.shape = {.m = size.k, .n = size.n, .k = rows, .transpose_a = true},
                           .batch = {size.experts, rows * size.k, rows * size.n, size.k * size.n}};
  gemm(stream, args.x, args.dy, args.dw, product, args.accumulate);
}

HIDUP_INSTANTIATE(expert_matmul);
HIDUP_INSTANTIATE(expert_matmul_backward_input);
HIDUP_INSTANTIATE(expert_matmul_backward_weight);

}  // namespace hidup::kernels
