// Inside the CUDA kernels: matrix products by cuBLASLt.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/matmul.h"

namespace hidup::kernels {

// Products of one shape; the operands of the next one lie so many elements further. 0: all
// products share that operand, which c may not be.
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

// c (+)= op(a) op(b) for every product of the batch, as matmul() has it: of the same types, and
// with sums in f32 too. cuBLASLt's choice of an algorithm is kept for every product that differs.
template <typename Element, typename Result>
void gemm(Stream& stream, const Element* a, const Element* b, Result* c, const Product& product,
          bool accumulate);

// c = what the epilogue makes of op(a) op(b), with k > 0 and a bias; its activation is none or
// gelu. False, and nothing done, where cuBLASLt does not do it for such operands.
//
// No ReLU: cuBLASLt's makes 0 of NaN, which would hide that a run has gone wrong.
template <typename Element>
bool gemm_bias(Stream& stream, const Element* a, const Element* b, Element* c,
               const Product& product, const Epilogue<Element>& epilogue);

// One product each, as matmul_gelu_backward() and matmul_sums() have it. False likewise.
template <typename Element>
bool gemm_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                        Element* c, const Product& product);
template <typename Element>
bool gemm_sums(Stream& stream, const Element* a, const Element* b, float* c, const Product& product,
               Factor summed, float* sums, bool accumulate);

// For how many multiprocessors the products that are given to streams now are made; 0: all of them
// (products.h).
int multiprocessors_for_products();

}  // namespace hidup::kernels
