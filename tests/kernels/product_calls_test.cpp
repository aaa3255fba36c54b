// How many products the CUDA back end computes, and how many bytes they touch.
#include <cublasLt.h>

#include "kernel_test.h"
#include "kernels/expert_matmul.h"

namespace hidup::kernels::testing {
namespace {

template <typename Body>
CudaShimProducts products_of(Body body) {
  const CudaShimProducts before = cuda_shim_products();
  run(body);
  const CudaShimProducts after = cuda_shim_products();
  return {after.calls - before.calls, after.bytes - before.bytes};
}

TEST(ProductCalls, OfExpertsDoNotDependOnTheBatch) {
  for (const int64_t batch : {1, 2, 9}) {
    for (const int64_t experts : {1, 4, 12}) {
      const ExpertSize size{.experts = experts, .batch = batch, .capacity = 5, .k = 16, .n = 24};
      SCOPED_TRACE(::testing::Message() << batch << " sequences, " << experts << " experts");
      const int64_t rows = size.experts * size.batch * size.capacity;
      const Ints counts(static_cast<size_t>(size.experts * size.batch), 5);
      const auto x = random_floats("x", rows * size.k);
      const auto dy = random_floats("dy", rows * size.n);
      const auto w = random_floats("w", size.experts * size.k * size.n);
      Output y(rows * size.n);
      Output dx(rows * size.k);
      Output dw(size.experts * size.k * size.n);
      const int32_t* c = counts.data();
      EXPECT_EQ(products_of([&](Stream& s) {
                  expert_matmul(s, x.data(), w.data(), c, y.data(), size);
                }).calls,
                1);
      EXPECT_EQ(products_of([&](Stream& s) {
                  expert_matmul_backward_input(s, dy.data(), w.data(), c, dx.data(), size);
                }).calls,
                1);
      const CudaShimProducts gradient = products_of([&](Stream& s) {
        expert_matmul_backward_weight<float>(s, {.x = x.data(),
                                                 .dy = dy.data(),
                                                 .counts = c,
                                                 .dw = dw.data(),
                                                 .size = size,
                                                 .accumulate = false});
      });
      EXPECT_EQ(gradient.calls, 1);
      // x and dy are read and dw is written, each once.
      EXPECT_EQ(gradient.bytes, 4 * (x.size() + dy.size() + dw.size()));
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
