#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <cmath>
#include <numbers>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

// d[2 x 3] (+)= a[2 x 4] b[4 x 3] by columns, as descriptors say that a test may spoil.
class MatrixProducts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    set_types(CUDA_R_32F, CUDA_R_32F);
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{1} << 20);
    for (int i = 0; i < 24; ++i) {
      a_.data()[i] = static_cast<float>(i);
      b_.data()[i] = static_cast<float>(i % 5);
    }
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    cublasLtMatmulPreferenceDestroy(preference_);
    destroy_layouts();
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }

  void destroy_layouts() {
    for (const cublasLtMatrixLayout_t layout : {a_layout_, b_layout_, d_layout_}) {
      cublasLtMatrixLayoutDestroy(layout);
    }
  }

  void set_types(cudaDataType_t operand, cudaDataType_t result) {
    destroy_layouts();
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&a_layout_, operand, 2, 4, 2), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&b_layout_, operand, 4, 3, 4), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&d_layout_, result, 2, 3, 2), CUBLAS_STATUS_SUCCESS);
  }

  template <typename T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  void make_batch(int32_t count, int64_t a, int64_t b, int64_t d) {
    const auto set = [count](cublasLtMatrixLayout_t layout, int64_t offset) {
      ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                 sizeof(count)),
                CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(
                    layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof(offset)),
                CUBLAS_STATUS_SUCCESS);
    };
    set(a_layout_, a);
    set(b_layout_, b);
    set(d_layout_, d);
    promise_alignment(4);
  }

  template <typename T>
  void describe(cublasLtMatmulDescAttributes_t attribute, T value) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  void finish(cublasLtEpilogue_t epilogue, const void* bias, void* input, int64_t stride) {
    describe(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
    describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    describe(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, input);
    describe(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, stride);
  }

  void promise_alignment(uint32_t bytes) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, bytes);
    }
  }

  void prefer_reductions(uint32_t schemes) {
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  }

  cublasStatus_t choose() {
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_layout_, b_layout_, d_layout_, d_layout_,
                                       preference_, 1, &choice_, &found);
    EXPECT_EQ(found, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    return status;
  }

  cublasStatus_t multiply(const void* a, const void* b, void* d, void* workspace, size_t bytes) {
    return cublasLtMatmul(handle_, desc_, &alpha_, a, a_layout_, b, b_layout_, &beta_, d, d_layout_,
                          d, d_layout_, &choice_.algo, workspace, bytes, nullptr);
  }
  cublasStatus_t multiply(const void* a, const void* b, void* d) {
    return multiply(a, b, d, workspace_.data(), choice_.workspaceSize);
  }

  // Element (i, j) of product p of a batch.
  float expected(int64_t p, int64_t a, int64_t b, int i, int j) const {
    float sum = 0.0F;
    for (int l = 0; l < 4; ++l) {
      sum += a_.values()[static_cast<size_t>(p * a + l * 2 + i)] *
             b_.values()[static_cast<size_t>(p * b + j * 4 + l)];
    }
    return sum;
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr;
  cublasLtMatrixLayout_t b_layout_ = nullptr;
  cublasLtMatrixLayout_t d_layout_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_ = {};
  DeviceArray<float> a_{24, 0.0F};
  DeviceArray<float> b_{24, 0.0F};
  DeviceArray<float> d_{24, NAN};
  DeviceArray<char> workspace_{8192, 0};
  float alpha_ = 1.0F;
  float beta_ = 0.0F;
};

TEST_F(MatrixProducts, AreThoseOfTheDefinition) {
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
  beta_ = 1.0F;
  alpha_ = 2.0F;
  ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(d_.data()[j * 2 + i], 3.0F * expected(0, 0, 0, i, j));
    }
  }
  EXPECT_TRUE(std::isnan(d_.data()[6]));
}

TEST_F(MatrixProducts, OfABatchMayShareAnOperand) {
  make_batch(2, 8, 0, 7);
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  for (int p = 0; p < 2; ++p) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) {
        EXPECT_EQ(d_.data()[p * 7 + j * 2 + i], expected(p, 8, 0, i, j));
      }
    }
  }
  EXPECT_TRUE(std::isnan(d_.data()[6]));
}

TEST_F(MatrixProducts, OfSixteenBitsAreRoundedOnce) {
  DeviceArray<uint16_t> a(24, 0);
  DeviceArray<uint16_t> b(24, 0);
  DeviceArray<uint16_t> d(24, 0xFFFF);
  for (const cudaDataType_t type : {CUDA_R_16BF, CUDA_R_16F}) {
    const auto bits_of = [type](float x) {
      return type == CUDA_R_16BF ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                                 : __half_as_ushort(__float2half_rn(x));
    };
    const auto float_of = [type](uint16_t bits) {
      return type == CUDA_R_16BF ? __bfloat162float(__ushort_as_bfloat16(bits))
                                 : __half2float(__ushort_as_half(bits));
    };
    for (int i = 0; i < 24; ++i) {
      a_.data()[i] = static_cast<float>(i % 8 + 120);
      a.data()[i] = bits_of(a_.data()[i]);
      b.data()[i] = bits_of(b_.data()[i]);
    }
    set_types(type, type);
    prefer_reductions(CUBLASLT_REDUCTION_SCHEME_MASK);
    make_batch(2, 8, 0, 7);
    promise_alignment(2);
    EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);  // sums might be rounded in between
    prefer_reductions(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    for (const float beta : {0.0F, 1.0F}) {
      beta_ = beta;
      ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(multiply(a.data(), b.data(), d.data()), CUBLAS_STATUS_SUCCESS);
    }
    set_types(type, CUDA_R_32F);
    make_batch(2, 8, 0, 7);
    beta_ = 0.0F;
    ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(multiply(a.data(), b.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    for (int p = 0; p < 2; ++p) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 3; ++j) {
          const float exact = expected(p, 8, 0, i, j);
          EXPECT_EQ(d.data()[p * 7 + j * 2 + i], bits_of(exact + float_of(bits_of(exact))));
          EXPECT_EQ(d_.data()[p * 7 + j * 2 + i], exact);
        }
      }
    }
    EXPECT_EQ(d.data()[6], 0xFFFF);
    EXPECT_TRUE(std::isnan(d_.data()[6]));
  }
}

TEST_F(MatrixProducts, OfTypesThatDoNotGoTogetherAreRefused) {
  set_types(CUDA_R_32F, CUDA_R_16F);
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  set_types(CUDA_R_16BF, CUDA_R_16F);
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(MatrixProducts, RunInStreamOrderAndUseTheirWorkspace) {
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_GT(choice_.workspaceSize, 0U);
  std::atomic<bool> go = false;
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) {
      std::this_thread::yield();
    }
  };
  ASSERT_EQ(cudaLaunchHostFunc(nullptr, wait, &go), cudaSuccess);
  ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(std::isnan(d_.data()[0]));
  EXPECT_EQ(workspace_.data()[0], 0);
  go = true;
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(d_.data()[0], expected(0, 0, 0, 0, 0));
  EXPECT_NE(workspace_.data()[0], 0);
  EXPECT_EQ(workspace_.data()[choice_.workspaceSize], 0);
}

TEST_F(MatrixProducts, OfSizesThatDoNotFitAreRefused) {
  const int32_t transposed = CUBLAS_OP_T;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 2),
            CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                           sizeof(transposed)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(MatrixProducts, OfMatricesThatCannotBeAreRefused) {
  cublasLtMatrixLayout_t layout = nullptr;
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 3, 4, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 0, 4, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_64F, 2, 4, 2), CUBLAS_STATUS_INVALID_VALUE);
  make_batch(2, 8, 0, 5);  // products overlap
  EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
  make_batch(4, 8, 0, 6);  // a ends after three
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
}

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

// Rounded once, from what GELU's input was before it was rounded.
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
        {bias.data(), input.data(), 2},         // no multiple of 8
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

// By GELU's slope at its input, which is read.
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

// Of a over k per row of d, and of b per column; they are overwritten, where d is added to, too.
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
  describe(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{208});  // DGELU_BGRAD, which hidup does not use
  EXPECT_EQ(choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(MatrixProducts, AreDoneByEachAlgorithmThatIsProposed) {
  cublasLtMatmulHeuristicResult_t proposed[8] = {};
  int found = 0;
  ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_layout_, b_layout_, d_layout_,
                                           d_layout_, preference_, 8, proposed, &found),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(found, 3);
  const int64_t first = cuda_shim_products().first;
  for (int i = 0; i < found; ++i) {
    choice_ = proposed[i];
    EXPECT_EQ(choice_.state, CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(d_.data()[0], expected(0, 0, 0, 0, 0));
  }
  EXPECT_EQ(cuda_shim_products().first, first + 1);
}

TEST_F(MatrixProducts, ForMultiprocessorsThatTheDeviceHasNotAreRefused) {
  for (const int32_t count : {-1, 2}) {
    describe(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, count);
    EXPECT_EQ(choose(), CUBLAS_STATUS_INVALID_VALUE);
  }
  describe(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{1});
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  describe(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{0});  // another problem
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(MatrixProducts, InWrongMemoryAreRefused) {
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  std::vector<float> host(24, 0.0F);
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4096), cudaSuccess);
  const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE;
  EXPECT_EQ(multiply(host.data(), b_.data(), d_.data()), invalid);
  EXPECT_EQ(multiply(a_.data(), pinned, d_.data()), invalid);
  EXPECT_EQ(multiply(a_.data(), b_.data(), nullptr), invalid);
  EXPECT_EQ(multiply(a_.data(), b_.data(), a_.data()), invalid);       // overlaps
  EXPECT_EQ(multiply(a_.data() + 1, b_.data(), d_.data()), invalid);   // not aligned
  EXPECT_EQ(multiply(a_.data() + 17, b_.data(), d_.data()), invalid);  // ends behind its memory
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data(), nullptr, choice_.workspaceSize), invalid);
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data(), pinned, choice_.workspaceSize), invalid);
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data(), workspace_.data(), 1), invalid);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(MatrixProducts, WithoutADescriptorOrForAnotherProblemAreRefused) {
  ASSERT_EQ(choose(), CUBLAS_STATUS_SUCCESS);
  make_batch(2, 8, 0, 6);
  EXPECT_EQ(multiply(a_.data(), b_.data(), d_.data()), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmul(nullptr, desc_, &alpha_, a_.data(), a_layout_, b_.data(), b_layout_,
                           &beta_, d_.data(), d_layout_, d_.data(), d_layout_, &choice_.algo,
                           workspace_.data(), choice_.workspaceSize, nullptr),
            CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasLtMatmul(handle_, desc_, &alpha_, a_.data(), nullptr, b_.data(), b_layout_,
                           &beta_, d_.data(), d_layout_, d_.data(), d_layout_, &choice_.algo,
                           workspace_.data(), choice_.workspaceSize, nullptr),
            CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace cuda_shim
