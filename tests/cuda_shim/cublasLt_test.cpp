#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <cmath>
#include <numbers>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "matrix_products.h"

namespace cuda_shim {
namespace {

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
