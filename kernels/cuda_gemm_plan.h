// Plans of products by cuBLASLt, for CUDA products.
//
// cuBLASLt's matrices are column-major. In that order a row-major matrix is its own transpose.
// Therefore c^T = op(b)^T op(a)^T: b is cuBLASLt's A, a its B, and n its number of rows.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <vector>

#include "device/cuda_stream.h"
#include "kernels/cuda_gemm.h"

namespace hidup::kernels {

// An epilogue in cuBLASLt's terms: its D is c^T. `vector` has an element per row or column of D.
struct LibraryEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* vector = nullptr;  // a bias, or memory for sums
  const void* input = nullptr;   // GELU's: written in the forward pass, read in the backward pass
};

// Alignments of a, b and c, and of an epilogue's vector and input, in bytes.
using Alignments = std::array<uint32_t, 5>;

// All facts on which cuBLASLt's proposals for a product depend.
struct ProductKind {
  Product product;
  cudaDataType_t operand;  // the type of a and b
  cudaDataType_t result;
  Alignments alignments;
  cublasLtEpilogue_t epilogue;
  int multiprocessors;  // 0: all of the device

  using Key = std::array<int64_t, 21>;
  Key key() const;
};

class MatrixLayout {
 public:
  // Extents and leading dimension in cuBLASLt's order; `offset`: from matrix to matrix of a batch.
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

// The algorithms that cuBLASLt proposes for products of a kind, and the chosen one.
class ProductPlan {
 public:
  // The epilogue has the addresses of the first call; later calls have equal alignments.
  ProductPlan(const ProductKind& kind, const LibraryEpilogue& epilogue);

  // Returns true if cuBLASLt has an algorithm.
  bool exists() const { return !algorithms_.empty(); }
  // Returns the bytes of memory that run() needs now.
  int64_t workspace() const;
  // Computes a product. The first run times all algorithms if timing is on (products.h).
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
  std::vector<double> seconds_;  // of each algorithm, if timed
};

// Returns the plan. Plans stay in memory: a program has few kinds of products in every step.
ProductPlan& plan_for(const ProductKind& kind, const LibraryEpilogue& epilogue);

}  // namespace hidup::kernels
