// Matrix products by cuBLASLt, for CUDA kernels.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/matmul.h"

namespace hidup::kernels {

// A batch of products of one shape; a, b and c: elements from an operand to that of the next
// product. 0: all products share the operand, which c may not be.
struct Batch {
  int64_t count = 1;
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

struct Product {
  MatmulShape shape;
  Batch batch;
};

// c (+)= op(a) op(b) for every product of the batch, with the types of matmul() and f32 sums.
// cuBLASLt's choice of an algorithm is stored for every distinct product.
template <typename Element, typename Result>
void gemm(Stream& stream, const Element* a, const Element* b, Result* c, const Product& product,
          bool accumulate);

// c = epilogue of op(a) op(b), with k > 0 and a bias; its activation is none or gelu. Returns false
// and does nothing if cuBLASLt does not support it for these operands.
//
// ReLU is excluded: cuBLASLt's turns NaN into 0, which would hide a failed run.
template <typename Element>
bool gemm_bias(Stream& stream, const Element* a, const Element* b, Element* c,
               const Product& product, const Epilogue<Element>& epilogue);

// Compute one product like matmul_gelu_backward() and matmul_sums(). Return false like gemm_bias().
template <typename Element>
bool gemm_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                        Element* c, const Product& product);
template <typename Element>
bool gemm_sums(Stream& stream, const Element* a, const Element* b, float* c, const Product& product,
               Factor summed, float* sums, bool accumulate);

// Returns the multiprocessors for which new products are optimized; 0: all (products.h).
int multiprocessors_for_products();

}  // namespace hidup::kernels
