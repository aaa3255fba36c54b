// Products by oneDNN. A matrix by columns is its own transpose by rows, hence d^T = op(b)^T
// op(a)^T. Matrices of 16 bits are converted to f32.
#include "cublasLt_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <oneapi/dnnl/dnnl.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <cmath>
#include <vector>

#include "state.h"

namespace cuda_shim {
namespace {

// Returns matrix i of a batch in f32, with all between its columns: in place, or in `memory`.
const float* widened(const CudaShimMatrixLayout& layout, const void* data, int32_t i,
                     std::vector<float>& memory) {
  if (layout.type == CUDA_R_32F) {
    return static_cast<const float*>(data) + i * layout.offset;
  }
  memory.resize(layout.elements());
  const auto* from = static_cast<const uint16_t*>(data) + i * layout.offset;
  for (size_t j = 0; j < memory.size(); ++j) {
    memory[j] = layout.type == CUDA_R_16BF ? __bfloat162float(__ushort_as_bfloat16(from[j]))
                                           : __half2float(__ushort_as_half(from[j]));
  }
  return memory.data();
}

void store(const CudaShimMatrixLayout& layout, float value, void* data, size_t at) {
  if (layout.type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<uint16_t*>(data)[at] = layout.type == CUDA_R_16BF
                                           ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                                           : __half_as_ushort(__float2half_rn(value));
  }
}

// Rounds `values` to the elements of matrix i, without those between its columns.
void store(const CudaShimMatrixLayout& layout, const std::vector<float>& values, void* data,
           int32_t i) {
  for (size_t j = 0; j < values.size(); ++j) {
    if (j % static_cast<size_t>(layout.stride) < layout.rows) {
      store(layout, values[j], data, static_cast<size_t>(i * layout.offset) + j);
    }
  }
}

constexpr float kRoot = 0.797884561F;  // of 2 / pi

// GELU in its tanh form, and its derivative.
float gelu(float x) {
  return 0.5F * x * (1.0F + std::tanh(kRoot * (x + 0.044715F * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(kRoot * (x + 0.044715F * x * x * x));
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * kRoot * (1.0F + 0.134145F * x * x);
}

// Calls finish(row, element, its index in GELU's input) for every element of a product.
template <typename Finish>
void for_elements(const Problem& p, float* product, Finish finish) {
  for (uint64_t column = 0; column < p.n; ++column) {
    for (uint64_t row = 0; row < p.m; ++row) {
      finish(row, product[column * static_cast<uint64_t>(p.d.stride) + row],
             column * static_cast<uint64_t>(p.desc.input_stride) + row);
    }
  }
}

void add_bias(const Problem& p, float* product) {
  std::vector<float> of_bias;
  const float* const bias = widened(p.vector(), p.desc.vector, 0, of_bias);
  if (!p.desc.has_input()) {
    for_elements(p, product, [=](uint64_t row, float& value, uint64_t) { value += bias[row]; });
    return;
  }
  std::vector<float> input(p.input().elements());
  for_elements(p, product, [&](uint64_t row, float& value, uint64_t at) {
    input[at] = value + bias[row];
    value = gelu(input[at]);
  });
  store(p.input(), input, p.desc.input, 0);
}

void multiply_by_slope(const Problem& p, float* product) {
  std::vector<float> of_input;
  const float* const input = widened(p.input(), p.desc.input, 0, of_input);
  for_elements(p, product,
               [=](uint64_t, float& value, uint64_t at) { value *= gelu_slope(input[at]); });
}

// Adds up op(a) per row, or op(b) per column.
void add_up(const Problem& p, const float* a, const float* b) {
  const bool of_a = p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const CudaShimMatrixLayout& layout = of_a ? p.a : p.b;
  const bool of_rows = (of_a ? p.desc.transpose_a : p.desc.transpose_b) ==
                       (of_a ? CUBLAS_OP_N : CUBLAS_OP_T);  // rows of the stored matrix
  std::vector<float> sums(of_rows ? layout.rows : layout.columns, 0.0F);
  for (uint64_t column = 0; column < layout.columns; ++column) {
    for (uint64_t row = 0; row < layout.rows; ++row) {
      sums[of_rows ? row : column] +=
          (of_a ? a : b)[column * static_cast<uint64_t>(layout.stride) + row];
    }
  }
  store(p.vector(), sums, p.desc.vector, 0);
}

// Applies the epilogue to a product in f32, with operands in f32.
void finish(const Problem& p, const float* a, const float* b, float* product) {
  switch (p.desc.epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return add_bias(p, product);
    case CUBLASLT_EPILOGUE_DGELU:
      return multiply_by_slope(p, product);
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return add_up(p, a, b);
  }
}

}  // namespace

void multiply(const Problem& p, const void* a, const void* b, void* d, float alpha, float beta) {
#ifdef _OPENMP
  omp_set_num_threads(1);  // for this stream's thread: several ranks share the cores
#endif
  std::vector<float> of_a;
  std::vector<float> of_b;
  std::vector<float> of_d;
  for (int32_t i = 0; i < p.d.count; ++i) {
    const float* const left = widened(p.b, b, i, of_b);
    const float* const right = widened(p.a, a, i, of_a);
    const bool floats = p.d.type == CUDA_R_32F;
    widened(p.d, d, i, of_d);
    float* const result = floats ? static_cast<float*>(d) + i * p.d.offset : of_d.data();
    const dnnl_status_t status =
        dnnl_sgemm(p.desc.transpose_b == CUBLAS_OP_T ? 'T' : 'N',
                   p.desc.transpose_a == CUBLAS_OP_T ? 'T' : 'N', static_cast<dnnl_dim_t>(p.n),
                   static_cast<dnnl_dim_t>(p.m), static_cast<dnnl_dim_t>(p.k), alpha, left,
                   p.b.stride, right, p.a.stride, beta, result, p.d.stride);
    if (status != dnnl_success) {
      set_fault("a matrix product failed");
    }
    finish(p, right, left, result);
    if (!floats) {
      store(p.d, of_d, d, i);
    }
  }
}

}  // namespace cuda_shim
