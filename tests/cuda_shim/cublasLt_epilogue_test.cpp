// Epilogues of a matrix product: a bias, GELU, its slope, and sums of an operand.
#include <cmath>
#include <numbers>
#include <vector>

#include "matrix_products.h"

namespace cuda_shim {
namespace {

TEST_F(MatrixProducts, AddABiasPerRow) {
  DeviceArray<float> bias(2, 0.0F);
  bias.data()[0] = 0.5F;
  bias.data()[1] = -2.0F;
  finish(CUBLASLT_EPILOGUE_BIAS, bias.data(), nullptr, 0);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(d_.data()[j * 2 + i], expected(0, 0, 0, i, j) + bias.data()[i]);
    }
  }
  EXPECT_TRUE(std::isnan(d_.data()[6]));
}

// GELU's input is rounded once, and its result is computed from the unrounded input.
TEST_F(MatrixProducts, KeepTheInputOfGelu) {
  DeviceArray<uint16_t> a(24, 0);
  DeviceArray<uint16_t> b(24, 0);
  DeviceArray<uint16_t> d(24, 0xFFFF);
  DeviceArray<uint16_t> bias(2, 0);
  DeviceArray<uint16_t> input(24, 0xFFFF);
  const auto bits_of = [](float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); };
  for (int i = 0; i < 24; ++i) {
    a_.data()[i] = static_cast<float>(i - 4) / 64.0F;
    a.data()[i] = bits_of(a_.data()[i]);
    b.data()[i] = bits_of(b_.data()[i]);
  }
  const float biases[] = {0.125F, -0.5F};
  bias.data()[0] = bits_of(biases[0]);
  bias.data()[1] = bits_of(biases[1]);
  set_types(CUDA_R_16BF, CUDA_R_16BF);
  prefer_reductions(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  finish(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, bias.data(), input.data(), 8);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(a.data(), b.data(), d.data()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double x = static_cast<double>(expected(0, 0, 0, i, j) + biases[i]);
      const double y =
          x /
          (1.0 + std::exp(-2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      EXPECT_EQ(input.data()[j * 8 + i], bits_of(static_cast<float>(x)));
      EXPECT_EQ(d.data()[j * 2 + i], bits_of(static_cast<float>(y)));
    }
  }
  EXPECT_EQ(input.data()[2], 0xFFFF);  // between the columns
  EXPECT_EQ(d.data()[6], 0xFFFF);
}

TEST_F(MatrixProducts, WithWrongOperandsOfAnEpilogueAreRefused) {
  const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE;
  DeviceArray<float> bias(64, 0.0F);
  DeviceArray<float> input(64, 0.0F);
  std::vector<float> host(64, 0.0F);
  const auto gelu = [&](const float* added, float* aux, int64_t stride) {
    finish(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, added, aux, stride);
  };
  const auto run = [&] { return multiply(a_.data(), b_.data(), d_.data()); };
  for (const auto& [added, aux, stride] :
       {std::tuple<float*, float*, int64_t>{nullptr, input.data(), 8},
        {bias.data(), nullptr, 8},
        {bias.data(), input.data(), 2},         // not a multiple of 8
        {bias.data(), input.data(), 0},         // shorter than a column
        {bias.data(), input.data() + 1, 8}}) {  // not aligned
    gelu(added, aux, stride);
    EXPECT_EQ(choose(), invalid);
  }
  for (const auto& [added, aux] : {std::pair{host.data(), input.data()},
                                   {bias.data(), host.data()},
                                   {bias.data(), input.data() + 48},  // ends behind its memory
                                   {bias.data(), d_.data()},          // overlap
                                   {d_.data(), input.data()},
                                   {bias.data(), bias.data()}}) {
    gelu(added, aux, 8);
    if (choose() == CUBLAS_STATUS_SUCCESS) {  // host memory may lie anywhere
      EXPECT_EQ(run(), invalid);
    }
  }
  gelu(bias.data(), input.data(), 8);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  gelu(bias.data() + 1, input.data(), 8);  // aligned less than promised
  EXPECT_EQ(run(), invalid);
  finish(CUBLASLT_EPILOGUE_BIAS, bias.data(), input.data(), 8);  // another problem
  EXPECT_EQ(run(), invalid);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  beta_ = 1.0F;
  EXPECT_EQ(run(), invalid);
  make_batch(2, 8, 0, 7);
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

// The epilogue multiplies by GELU's slope at its input.
TEST_F(MatrixProducts, MultiplyByTheSlopeOfGelu) {
  DeviceArray<float> input(24, NAN);
  const auto slope = [](double x) {
    const double root = std::sqrt(2.0 / std::numbers::pi);
    const double t = std::tanh(root * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * x * x);
  };
  for (int i = 0; i < 6; ++i) {
    input.data()[i / 2 * 8 + i % 2] = static_cast<float>(i) - 2.5F;
  }
  finish(CUBLASLT_EPILOGUE_DGELU, nullptr, input.data(), 8);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double y = expected(0, 0, 0, i, j) * slope(j * 2 + i - 2.5);
      EXPECT_NEAR(d_.data()[j * 2 + i], y, 1e-5 * std::abs(y) + 1e-4);
    }
  }
  EXPECT_TRUE(std::isnan(d_.data()[6]));
  beta_ = 1.0F;
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
  beta_ = 0.0F;
  finish(CUBLASLT_EPILOGUE_DGELU, nullptr, d_.data(), 8);
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
  finish(CUBLASLT_EPILOGUE_DGELU, nullptr, nullptr, 8);
  EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
}

// Sums over k, of a per row of d or of b per column, overwrite, even where the product adds to d.
TEST_F(MatrixProducts, AddUpAnOperand) {
  const float of_a[] = {0 + 2 + 4 + 6, 1 + 3 + 5 + 7};
  const float of_b[] = {0 + 1 + 2 + 3, 4 + 0 + 1 + 2, 3 + 4 + 0 + 1};
  for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    const bool is_a = epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (const float beta : {0.0F, 1.0F}) {
      DeviceArray<float> sums(4, 100.0F);
      beta_ = beta;
      finish(epilogue, sums.data(), nullptr, 0);
      ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(sums.data()[i], i >= (is_a ? 2 : 3) ? 100.0F : (is_a ? of_a : of_b)[i]);
      }
      EXPECT_EQ(d_.data()[3], (1.0F + beta) * expected(0, 0, 0, 1, 1));
    }
  }
  const int32_t transposed = CUBLAS_OP_T;  // a: [4, 2], b: [3, 4], by columns
  describe(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
  describe(CUBLASLT_MATMUL_DESC_TRANSB, transposed);
  destroy_layouts();
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&a_layout_, CUDA_R_32F, 4, 2, 4), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&b_layout_, CUDA_R_32F, 3, 4, 3), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&d_layout_, CUDA_R_32F, 2, 3, 2), CUBLAS_STATUS_SUCCESS);
  beta_ = 0.0F;
  for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    const bool is_a = epilogue == CUBLASLT_EPILOGUE_BGRADA;
    DeviceArray<float> sums(4, 0.0F);
    finish(epilogue, sums.data(), nullptr, 0);
    ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(sums.data()[1], is_a ? 4 + 5 + 6 + 7 : 1 + 4 + 2 + 0);
  }
}

TEST_F(MatrixProducts, WhoseSumsAreWrittenOverAnOperandAreRefused) {
  DeviceArray<float> sums(4, 0.0F);
  finish(CUBLASLT_EPILOGUE_BGRADA, sums.data(), nullptr, 0);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  for (float* const taken : {a_.data(), b_.data(), d_.data()}) {
    finish(CUBLASLT_EPILOGUE_BGRADA, taken, nullptr, 0);
    EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
  }
  finish(CUBLASLT_EPILOGUE_BGRADA, nullptr, nullptr, 0);
  EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
  describe(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{208});  // DGELU_BGRAD, unused by hidup
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace cuda_shim
