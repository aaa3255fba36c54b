// A product as cuBLASLt's descriptors define it, and its computation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cublasLt.h"

struct CudaShimMatmulDesc {
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;  // a bias, or its gradient
  void* input = nullptr;   // of GELU
  int64_t input_stride = 0;
  int32_t multiprocessors = 0;  // 0: those of the device

  bool has_epilogue() const { return epilogue != CUBLASLT_EPILOGUE_DEFAULT; }
  bool has_input() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
  }
  bool has_vector() const { return has_epilogue() && epilogue != CUBLASLT_EPILOGUE_DGELU; }
  bool has_sums() const {  // in its vector
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
};

struct CudaShimMatrixLayout {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t columns;
  int64_t stride;
  int32_t count = 1;
  int64_t offset = 0;  // elements from one matrix to the next

  bool operator==(const CudaShimMatrixLayout&) const = default;

  size_t element() const { return type == CUDA_R_32F ? 4 : 2; }  // bytes
  // Returns the elements from the first to the last of a matrix.
  uint64_t elements() const { return (columns - 1) * static_cast<uint64_t>(stride) + rows; }
  // Returns the bytes from the first matrix's first element to the last matrix's last one.
  size_t bytes() const {
    return element() *
           (elements() + static_cast<uint64_t>(count - 1) * static_cast<uint64_t>(offset));
  }
};

namespace cuda_shim {

struct Problem {
  CudaShimMatmulDesc desc;
  CudaShimMatrixLayout a, b, d;
  uint64_t m, n, k;

  uint64_t hash() const {
    uint64_t hash = 14695981039346656037U;  // FNV-1a, over numbers instead of bytes
    const auto add = [&hash](uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
    add(static_cast<uint64_t>(2 * desc.transpose_a + desc.transpose_b));
    add(desc.epilogue);
    add(static_cast<uint64_t>(desc.multiprocessors));
    add(static_cast<uint64_t>(desc.input_stride));
    for (const CudaShimMatrixLayout& layout : {a, b, d}) {
      add(static_cast<uint64_t>(layout.type));
      add(layout.rows);
      add(layout.columns);
      add(static_cast<uint64_t>(layout.stride));
      add(static_cast<uint64_t>(layout.count));
      add(static_cast<uint64_t>(layout.offset));
    }
    return hash;
  }

  // Layouts of the epilogue's operands.
  CudaShimMatrixLayout vector() const {
    const uint64_t length = desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n : m;
    return {.type = d.type, .rows = length, .columns = 1, .stride = static_cast<int64_t>(length)};
  }
  CudaShimMatrixLayout input() const {
    return {.type = d.type, .rows = m, .columns = n, .stride = desc.input_stride};
  }
  size_t vector_bytes() const { return desc.has_vector() ? vector().bytes() : 0; }
  size_t input_bytes() const { return desc.has_input() ? input().bytes() : 0; }
};

// Computes d = alpha op(a) op(b) + beta d, and the epilogue, on the calling thread.
void multiply(const Problem& p, const void* a, const void* b, void* d, float alpha, float beta);

}  // namespace cuda_shim
