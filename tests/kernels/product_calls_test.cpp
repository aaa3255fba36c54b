// How many products the CUDA back end computes, and how many bytes they touch.
#include <cublasLt.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "core/check.h"
#include "kernel_test.h"
#include "kernels/expert_matmul.h"
#include "kernels/matmul.h"
#include "kernels/products.h"

namespace hidup::kernels::testing {
namespace {

template <typename Body>
CudaShimProducts products_of(Body body) {
  const CudaShimProducts before = cuda_shim_products();
  run(body);
  const CudaShimProducts after = cuda_shim_products();
  return {after.calls - before.calls, after.bytes - before.bytes, after.limited - before.limited};
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

// One product, which reads GELU's input besides; where that has other rows than cuBLASLt takes, a
// product that does not.
TEST(ProductCalls, GelusBackwardPassIsInTheProduct) {
  for (const MatmulShape& size : {MatmulShape{24, 16, 8}, {24, 12, 8}}) {
    SCOPED_TRACE(size.n);
    const auto a = random_floats("a", size.m * size.k);
    const auto b = random_floats("b", size.k * size.n);
    const auto x = random_floats("x", size.m * size.n);
    Output c(size.m * size.n);
    const CudaShimProducts products = products_of(
        [&](Stream& s) { matmul_gelu_backward(s, a.data(), b.data(), x.data(), c.data(), size); });
    EXPECT_EQ(products.calls, 1);
    EXPECT_EQ(products.bytes,
              4 * (a.size() + b.size() + c.size() + (size.n % 8 == 0 ? x.size() : 0)));
  }
}

TEST(ProductCalls, TheSumsOfABiasAreInTheProduct) {
  const MatmulShape size{.m = 12, .n = 20, .k = 30, .transpose_a = true};
  const auto a = random_floats("a", size.m * size.k);
  const auto b = random_floats("b", size.k * size.n);
  for (const Factor summed : {Factor::a, Factor::b}) {
    Output c(random_floats("c", size.m * size.n));
    Output sums(random_floats("sums", summed == Factor::a ? size.m : size.n));
    for (const bool accumulate : {false, true}) {
      const CudaShimProducts products = products_of([&](Stream& s) {
        matmul_sums(s, a.data(), b.data(), c.data(), size, summed, sums.data(), accumulate);
      });
      EXPECT_EQ(products.calls, 1);
      EXPECT_EQ(products.bytes,
                4 * (a.size() + b.size() + c.size() * (accumulate ? 2 : 1) + sums.size()));
    }
  }
}

// Those that are told to, and those alone, leave multiprocessors to messages.
TEST(ProductCalls, BesideMessagesAreForFewerMultiprocessors) {
  constexpr const char* kVariable = "CUDA_SHIM_MULTIPROCESSORS";
  ASSERT_EQ(::setenv(kVariable, "4", 1), 0);
  const auto a = random_floats("a", 64);
  Output c(64);
  const auto limited = [&](bool beside) {
    return products_of([&](Stream& s) {
             const std::optional<BesideMessages> here =
                 beside ? std::optional<BesideMessages>(std::in_place) : std::nullopt;
             matmul(s, a.data(), a.data(), c.data(), {8, 8, 8}, false);
           })
        .limited;
  };
  EXPECT_EQ(limited(true), 0);
  reserve_multiprocessors(3);
  EXPECT_EQ(limited(true), 1);
  EXPECT_EQ(limited(false), 0);
  EXPECT_THROW(reserve_multiprocessors(4), Error);
  reserve_multiprocessors(0);
  EXPECT_EQ(limited(true), 0);
  ASSERT_EQ(::unsetenv(kVariable), 0);
}

}  // namespace
}  // namespace hidup::kernels::testing
