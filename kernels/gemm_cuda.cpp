#include <cstddef>

#include "kernels/add.h"
#include "kernels/cuda_gemm.h"
#include "kernels/cuda_gemm_plan.h"
#include "kernels/cuda_launch.h"

namespace hidup::kernels {
namespace {

template <typename Element>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<BFloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<Float16> = CUDA_R_16F;

// Returns the largest power of 2, up to 256, that divides the addresses of all matrices of a batch.
template <typename Element>
uint32_t alignment_of(const Element* data, int64_t stride) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(data) |
                         (static_cast<uintptr_t>(stride) * sizeof(Element)) | uintptr_t{256};
  return static_cast<uint32_t>(bits & (~bits + 1));
}

template <typename Element>
LibraryEpilogue for_library(const Epilogue<Element>& epilogue) {
  if (epilogue.input != nullptr) {
    return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, epilogue.bias, epilogue.input};
  }
  return {CUBLASLT_EPILOGUE_BIAS, epilogue.bias};
}

// cuBLASLt needs rows of GELU's input of a multiple of 8 elements, aligned to 16 bytes.
template <typename Element>
bool takes_input(const Element* input, const MatmulShape& shape) {
  return shape.n % 8 == 0 && alignment_of(input, 0) >= 16;
}

template <typename Element, typename Result>
Alignments alignments_of(const Element* a, const Element* b, const Result* c, const Batch& batch,
                         const LibraryEpilogue& epilogue) {
  return {alignment_of(a, batch.a), alignment_of(b, batch.b), alignment_of(c, batch.c),
          alignment_of(static_cast<const std::byte*>(epilogue.vector), 0),
          alignment_of(static_cast<const std::byte*>(epilogue.input), 0)};
}

// Returns false and does nothing if cuBLASLt has no algorithm with that epilogue. `vector_bytes`:
// size of the epilogue's vector if that is at the start of the stream's scratch memory, else 0.
template <typename Element, typename Result>
bool multiply(Stream& stream, const Element* a, const Element* b, Result* c, const Product& product,
              bool accumulate, LibraryEpilogue epilogue, int64_t vector_bytes = 0) {
  CudaStream& on = cuda_stream(stream);
  if (vector_bytes > 0) {
    epilogue.vector = on.scratch(vector_bytes);
  }
  ProductPlan& plan = plan_for({.product = product,
                                .operand = kType<Element>,
                                .result = kType<Result>,
                                .alignments = alignments_of(a, b, c, product.batch, epilogue),
                                .epilogue = epilogue.kind,
                                .multiprocessors = multiprocessors_for_products()},
                               epilogue);
  if (!plan.exists()) {
    return false;
  }
  auto* const memory = static_cast<std::byte*>(on.scratch(vector_bytes + plan.workspace()));
  if (vector_bytes > 0) {
    epilogue.vector = memory;
  }
  plan.run(on, {a, b, c, accumulate, epilogue}, memory + vector_bytes);
  return true;
}

bool is_empty(const MatmulShape& shape) {
  return shape.m == 0 || shape.n == 0 || shape.k == 0;
}

}  // namespace

template <typename Element, typename Result>
void gemm(Stream& stream, const Element* a, const Element* b, Result* c, const Product& product,
          bool accumulate) {
  const MatmulShape& shape = product.shape;
  const Batch& batch = product.batch;
  if (shape.m == 0 || shape.n == 0 || batch.count == 0) {
    return;
  }
  if (shape.k == 0) {
    for (int64_t i = 0; i < batch.count && !accumulate; ++i) {
      fill_bytes(stream, c + i * batch.c, 0, shape.c_span() * static_cast<int64_t>(sizeof(Result)));
    }
    return;
  }
  multiply(stream, a, b, c, product, accumulate, {});
}

template <typename Element>
bool gemm_bias(Stream& stream, const Element* a, const Element* b, Element* c,
               const Product& product, const Epilogue<Element>& epilogue) {
  return (epilogue.input == nullptr || takes_input(epilogue.input, product.shape)) &&
         multiply(stream, a, b, c, product, false, for_library(epilogue));
}

template <typename Element>
bool gemm_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                        Element* c, const Product& product) {
  return !is_empty(product.shape) && takes_input(x, product.shape) &&
         multiply(stream, a, b, c, product, false, {CUBLASLT_EPILOGUE_DGELU, nullptr, x});
}

// cuBLASLt overwrites the vector of sums even if c accumulates.
template <typename Element>
bool gemm_sums(Stream& stream, const Element* a, const Element* b, float* c, const Product& product,
               Factor summed, float* sums, bool accumulate) {
  const MatmulShape& shape = product.shape;
  if (is_empty(shape)) {
    return false;
  }
  const cublasLtEpilogue_t kind =
      summed == Factor::a ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
  if (!accumulate) {
    return multiply(stream, a, b, c, product, false, {kind, sums});
  }
  const int64_t n = summed == Factor::a ? shape.m : shape.n;
  const int64_t bytes = ceil_div(n * int64_t{sizeof(float)}, kAlignment) * kAlignment;
  if (!multiply(stream, a, b, c, product, true, {kind}, bytes)) {
    return false;
  }
  add_forward(stream, sums, static_cast<const float*>(cuda_stream(stream).scratch(bytes)), sums, n);
  return true;
}

HIDUP_INSTANTIATE_PRODUCT(gemm);
HIDUP_INSTANTIATE(gemm_bias);
HIDUP_INSTANTIATE(gemm_gelu_backward);
HIDUP_INSTANTIATE(gemm_sums);

}  // namespace hidup::kernels
