// The number of products of the CUDA back end, and the bytes that they touch.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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
  return {after.calls - before.calls, after.bytes - before.bytes, after.limited - before.limited,
          after.first - before.first};
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
      // x and dy are read and dw is written, once each.
      EXPECT_EQ(gradient.bytes, 4 * (x.size() + dy.size() + dw.size()));
    }
  }
}

// One product also reads GELU's input; where cuBLASLt does not accept that input's rows, a plain
// product runs.
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

// Only products marked as beside messages leave multiprocessors to them.
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

// Products [rows, 8] x [8, 8], whose algorithms are slow except the second. Other tests have other
// rows.
class Algorithms : public ::testing::Test {
 protected:
  Algorithms() {
    for (const int slow : {0, 2}) {
      cuda_shim_delay_algorithm(slow, 5e-3);
    }
  }
  ~Algorithms() override {
    for (const int slow : {0, 2}) {
      cuda_shim_delay_algorithm(slow, 0.0);
    }
    choose_algorithms({});
  }
  Algorithms(const Algorithms&) = delete;
  Algorithms& operator=(const Algorithms&) = delete;

  void multiply(Stream& stream, int64_t rows) {
    matmul(stream, a_.data(), b_.data(), c_.data(), {rows, 8, 8}, false);
  }
  CudaShimProducts products(int64_t rows) {
    return products_of([&](Stream& s) { multiply(s, rows); });
  }
  Floats written(int64_t rows) const {
    const Floats all = c_.values();
    return {all.begin(), all.begin() + 8 * rows};
  }
  // Returns the times of the only timed product with so many rows.
  static AlgorithmTimes times_of(const TimeAlgorithms& timing, int64_t rows) {
    std::vector<AlgorithmTimes> found = timing.times();
    std::erase_if(found, [&](const AlgorithmTimes& times) {
      return std::ranges::find(times.product, rows) == times.product.end();
    });
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? AlgorithmTimes{} : found[0];
  }

  Floats a_ = random_floats("a", 1024);
  Floats b_ = random_floats("b", 64);
  Output c_{1024};
};

TEST_F(Algorithms, AreTimedOnceWhereThatIsWanted) {
  EXPECT_EQ(products(71).first, 1);
  const TimeAlgorithms timing;
  const CudaShimProducts first = products(73);
  EXPECT_EQ(first.calls, 3 * 4 + 1);
  const Floats expected = written(73);
  const CudaShimProducts second = products(73);
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(second.first, 0);
  EXPECT_EQ(written(73), expected);
  const AlgorithmTimes times = times_of(timing, 73);
  ASSERT_EQ(times.seconds.size(), 3U);
  EXPECT_GE(times.seconds[0], 5e-3);
  EXPECT_GE(times.seconds[2], 5e-3);
}

TEST_F(Algorithms, AreThoseThatWereChosen) {
  AlgorithmTimes times;
  {
    const TimeAlgorithms timing;
    products(79);
    times = times_of(timing, 79);
  }
  EXPECT_EQ(products(79).first, 0);  // another one is the fastest
  choose_algorithms({});
  EXPECT_EQ(products(79).first, 1);
  choose_algorithms({{times.product, 2}});
  EXPECT_EQ(products(79).first, 0);
  // The choice holds for a later product, too.
  std::vector<int64_t> later = times.product;
  std::ranges::replace(later, int64_t{79}, int64_t{83});
  choose_algorithms({{later, 1}});
  EXPECT_EQ(products(79).first, 1);
  EXPECT_EQ(products(83).first, 0);
  EXPECT_THROW(choose_algorithms({{later, 3}}), Error);
}

// No call may wait for the stream during a recording.
TEST_F(Algorithms, AreNotTimedInARecording) {
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Stream> stream = device->create_stream("compute", 1);
  multiply(*stream, 89);  // allocates the workspace
  stream->synchronize();
  const TimeAlgorithms timing;
  Stream* const streams[] = {stream.get()};
  const std::unique_ptr<Recording> recording =
      device->record(streams, false, [&] { multiply(*stream, 97); });
  ASSERT_NE(recording, nullptr);
  for (const AlgorithmTimes& times : timing.times()) {
    EXPECT_EQ(std::ranges::find(times.product, 97), times.product.end());
  }
  recording->replay();
  stream->synchronize();
  EXPECT_FALSE(std::isnan(c_[97 * 8 - 1]));
}

}  // namespace
}  // namespace hidup::kernels::testing
