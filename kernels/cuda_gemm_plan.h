// Inside the CUDA products: how cuBLASLt does one.
//
// It reads matrices by columns. Read so, a row-major matrix is its own transpose. Therefore
// c^T = op(b)^T op(a)^T: b is cuBLASLt's A, a its B, and n its number of rows.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <vector>

#include "device/cuda_stream.h"
#include "kernels/cuda_gemm.h"

namespace hidup::kernels {

// What comes with a product, as cuBLASLt is told: its D is c^T. A vector has an element for each
// row of that, or for each column.
struct LibraryEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* vector = nullptr;  // a bias, or where sums go
  const void* input = nullptr;   // of GELU: written in the forward pass, read in the backward pass
};

// Of a, b and c, and of the vector and the input of an epilogue.
using Alignments = std::array<uint32_t, 5>;

// All that cuBLASLt's proposals for a product depend on.
struct ProductKind {
  Product product;
  cudaDataType_t operand;  // the type of a and b
  cudaDataType_t result;
  Alignments alignments;
  cublasLtEpilogue_t epilogue;
  int multiprocessors;  // 0: those of the device

  using Key = std::array<int64_t, 21>;
  Key key() const;
};

class MatrixLayout {
 public:
  // Rows, columns and the leading dimension as cuBLASLt reads it; `offset`: from one matrix of a
  // batch to the next.
  MatrixLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading, int64_t count,
               int64_t offset);
  ~MatrixLayout();
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

// The addresses of a product.
struct ProductOperands {
  const void* a;
  const void* b;
  void* c;
  bool accumulate;
  LibraryEpilogue epilogue;
};

// The algorithms that cuBLASLt proposes for products of a kind, and the one that is taken.
class ProductPlan {
 public:
  // The epilogue has the addresses of the first call; those of later calls are aligned alike.
  ProductPlan(const ProductKind& kind, const LibraryEpilogue& epilogue);

  // Whether cuBLASLt has an algorithm.
  bool exists() const { return !algorithms_.empty(); }
  // Bytes of memory that run() takes now.
  int64_t workspace() const;
  // Where algorithms are timed (products.h), each of them first, the first time.
  void run(CudaStream& stream, const ProductOperands& operands, void* workspace);

  void choose(int algorithm);
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  void run_by(size_t algorithm, CudaStream& stream, const ProductOperands& operands,
              void* workspace) const;
  void time(CudaStream& stream, const ProductOperands& operands, void* workspace);

  ProductKind kind_;
  MatrixLayout a_;
  MatrixLayout b_;
  MatrixLayout c_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;  // by cuBLASLt's estimate, best first
  size_t chosen_ = 0;
  std::vector<double> seconds_;  // of each, where they were timed
};

// Plans stay: a program has few kinds of products, and every step has the same.
ProductPlan& plan_for(const ProductKind& kind, const LibraryEpilogue& epilogue);

}  // namespace hidup::kernels
