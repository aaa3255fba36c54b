// Matrix products of the stand-in for cuBLASLt, for its tests only.
#pragma once

#include <cublasLt.h>

#include <cmath>

#include "shim_test.h"

namespace cuda_shim {

// d[2 x 3] (+)= a[2 x 4] b[4 x 3] by columns; tests may spoil its descriptors.
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

  // Returns element (i, j) of product p of a batch.
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

}  // namespace cuda_shim
