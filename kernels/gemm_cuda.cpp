// cuBLASLt reads matrices by columns. Read so, a row-major matrix is its own transpose. Therefore
// c^T = op(b)^T op(a)^T: b is cuBLASLt's A, a its B, and n its number of rows.
#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <tuple>

#include "core/check.h"
#include "kernels/add.h"
#include "kernels/cuda_gemm.h"
#include "kernels/cuda_launch.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr uint64_t kMaxWorkspace = uint64_t{32} << 20;  // bytes: what NVIDIA advises for sm_90

void check_cublas(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "{} failed: {} ({})", call,
        cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

// One per process, as there is one device; it lives as long.
cublasLtHandle_t library() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t created = nullptr;
    check_cublas(cublasLtCreate(&created), "cublasLtCreate");
    return created;
  }();
  return handle;
}

template <typename Element>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<BFloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<Float16> = CUDA_R_16F;

// Of a and b, and of c.
struct Types {
  cudaDataType_t operand;
  cudaDataType_t result;
};

// The largest power of 2, up to 256, that divides the addresses of all matrices of a batch.
template <typename Element>
uint32_t alignment_of(const Element* data, int64_t stride) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(data) |
                         (static_cast<uintptr_t>(stride) * sizeof(Element)) | uintptr_t{256};
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// What comes with a product, as cuBLASLt is told: its D is c^T. A vector has an element for each
// row of that, or for each column.
struct LibraryEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* vector = nullptr;  // a bias, or where sums go
  const void* input = nullptr;   // of GELU: written in the forward pass, read in the backward pass
};

template <typename Element>
LibraryEpilogue for_library(const Epilogue<Element>& epilogue) {
  if (epilogue.input != nullptr) {
    return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, epilogue.bias, epilogue.input};
  }
  return {CUBLASLT_EPILOGUE_BIAS, epilogue.bias};
}

// cuBLASLt wants rows of GELU's input that are a multiple of 8 elements, and begin at 16 bytes.
template <typename Element>
bool takes_input(const Element* input, const MatmulShape& shape) {
  return shape.n % 8 == 0 && alignment_of(input, 0) >= 16;
}

// Of a, b and c, and of the vector and the input of an epilogue.
using Alignments = std::array<uint32_t, 5>;

template <typename Element, typename Result>
Alignments alignments_of(const Element* a, const Element* b, const Result* c, const Batch& batch,
                         const LibraryEpilogue& epilogue) {
  return {alignment_of(a, batch.a), alignment_of(b, batch.b), alignment_of(c, batch.c),
          alignment_of(static_cast<const std::byte*>(epilogue.vector), 0),
          alignment_of(static_cast<const std::byte*>(epilogue.input), 0)};
}

class MatrixLayout {
 public:
  // Rows, columns and the leading dimension as cuBLASLt reads it; `offset`: from one matrix of a
  // batch to the next.
  MatrixLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading, int64_t count,
               int64_t offset) {
    check_cublas(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<uint64_t>(rows),
                                            static_cast<uint64_t>(columns), leading),
                 "cublasLtMatrixLayoutCreate");
    check_i32("products of a batch", count);
    const auto matrices = static_cast<int32_t>(count);
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, matrices);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, offset);
  }
  ~MatrixLayout() { cublasLtMatrixLayoutDestroy(layout_); }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  template <typename T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    check_cublas(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof(value)),
                 "cublasLtMatrixLayoutSetAttribute");
  }

  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Operation {
 public:
  Operation(const Product& p, const LibraryEpilogue& epilogue, int multiprocessors) {
    // Not CUBLAS_COMPUTE_32F_FAST_TF32: products keep all bits of f32.
    check_cublas(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    const auto operation = [](bool transposed) {
      return static_cast<int32_t>(transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.shape.transpose_b));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.shape.transpose_a));
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{multiprocessors});
    if (epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue.kind));
    }
    if (epilogue.vector != nullptr) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.vector);
    }
    if (epilogue.input != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.input);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.shape.n);
    }
  }
  ~Operation() { cublasLtMatmulDescDestroy(operation_); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  cublasLtMatmulDesc_t get() const { return operation_; }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_cublas(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  }

  cublasLtMatmulDesc_t operation_ = nullptr;
};

class Preference {
 public:
  Preference(const Types& types, const Alignments& alignments) {
    check_cublas(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
    if (types.result != CUDA_R_32F) {
      // Parts of a sum, where it is split, are added in f32 instead of in the result's type.
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    }
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check_cublas(
        cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulPreference_t preference_ = nullptr;
};

// A product, and how cuBLASLt does it.
class Plan {
 public:
  // The epilogue has the addresses of the first call; those of later calls are aligned alike.
  Plan(const Product& p, const Types& types, const Alignments& alignments,
       const LibraryEpilogue& epilogue, int multiprocessors)
      : product_(p),
        multiprocessors_(multiprocessors),
        a_(types.operand, p.shape.a_columns(), p.shape.transpose_a ? p.shape.k : p.shape.m,
           p.shape.lda(), p.batch.count, p.batch.a),
        b_(types.operand, p.shape.b_columns(), p.shape.transpose_b ? p.shape.n : p.shape.k,
           p.shape.ldb(), p.batch.count, p.batch.b),
        c_(types.result, p.shape.n, p.shape.m, p.shape.ldc(), p.batch.count, p.batch.c) {
    const Preference preference(types, alignments);
    const Operation operation(p, epilogue, multiprocessors);
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library(), operation.get(), b_.get(), a_.get(), c_.get(),
                                       c_.get(), preference.get(), 1, &choice_, &found);
    exists_ =
        status == CUBLAS_STATUS_SUCCESS && found == 1 && choice_.state == CUBLAS_STATUS_SUCCESS;
    // An error in the product itself shows when it is tried without the epilogue.
    check(exists_ || epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT,
          "cuBLASLt has no algorithm for {} product(s) of m={} n={} k={}: {}", p.batch.count,
          p.shape.m, p.shape.n, p.shape.k, cublasLtGetStatusString(status));
  }

  // Whether cuBLASLt has an algorithm for it.
  bool exists() const { return exists_; }

  // Bytes of memory that run() takes.
  int64_t workspace() const { return static_cast<int64_t>(choice_.workspaceSize); }

  void run(CudaStream& stream, const void* a, const void* b, void* c, bool accumulate,
           const LibraryEpilogue& epilogue, void* workspace) const {
    const Operation operation(product_, epilogue, multiprocessors_);
    const float alpha = 1.0F;
    const float beta = accumulate ? 1.0F : 0.0F;
    const size_t bytes = choice_.workspaceSize;
    check_cublas(
        cublasLtMatmul(library(), operation.get(), &alpha, b, b_.get(), a, a_.get(), &beta, c,
                       c_.get(), c, c_.get(), &choice_.algo, workspace, bytes, stream.handle()),
        "cublasLtMatmul");
  }

 private:
  Product product_;
  int multiprocessors_;
  MatrixLayout a_;
  MatrixLayout b_;
  MatrixLayout c_;
  cublasLtMatmulHeuristicResult_t choice_ = {};
  bool exists_ = false;
};

// All that a plan depends on.
using Key = std::array<int64_t, 21>;

Key key_of(const Product& p, const Types& types, const Alignments& alignments,
           cublasLtEpilogue_t epilogue, int multiprocessors) {
  return {types.operand,
          types.result,
          epilogue,
          multiprocessors,
          p.shape.m,
          p.shape.n,
          p.shape.k,
          p.shape.transpose_a ? 1 : 0,
          p.shape.transpose_b ? 1 : 0,
          p.shape.lda(),
          p.shape.ldb(),
          p.shape.ldc(),
          p.batch.count,
          p.batch.a,
          p.batch.b,
          p.batch.c,
          alignments[0],
          alignments[1],
          alignments[2],
          alignments[3],
          alignments[4]};
}

// Plans stay: a program has few shapes, and every step has the same.
const Plan& plan_for(const Product& product, const Types& types, const Alignments& alignments,
                     const LibraryEpilogue& epilogue) {
  static auto* plans = new std::map<Key, Plan>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const int multiprocessors = multiprocessors_for_products();
  const Key key = key_of(product, types, alignments, epilogue.kind, multiprocessors);
  auto found = plans->find(key);
  if (found == plans->end()) {
    found =
        plans
            ->emplace(std::piecewise_construct, std::forward_as_tuple(key),
                      std::forward_as_tuple(product, types, alignments, epilogue, multiprocessors))
            .first;
  }
  return found->second;
}

// False, and nothing done, where cuBLASLt has no algorithm with that epilogue. `vector_bytes`: of a
// vector of the epilogue that lies at the start of the stream's scratch memory; 0: it does not.
template <typename Element, typename Result>
bool multiply(Stream& stream, const Element* a, const Element* b, Result* c, const Product& product,
              bool accumulate, LibraryEpilogue epilogue, int64_t vector_bytes = 0) {
  CudaStream& on = cuda_stream(stream);
  if (vector_bytes > 0) {
    epilogue.vector = on.scratch(vector_bytes);
  }
  const Plan& plan = plan_for(product, {kType<Element>, kType<Result>},
                              alignments_of(a, b, c, product.batch, epilogue), epilogue);
  if (!plan.exists()) {
    return false;
  }
  auto* const memory = static_cast<std::byte*>(on.scratch(vector_bytes + plan.workspace()));
  if (vector_bytes > 0) {
    epilogue.vector = memory;
  }
  plan.run(on, a, b, c, accumulate, epilogue, memory + vector_bytes);
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

// cuBLASLt overwrites the vector of sums, whatever is done with c.
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

#define INSTANTIATE(Element, Result) template decltype(gemm<Element, Result>) gemm<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

#define INSTANTIATE(Element)                                                  \
  template decltype(gemm_bias<Element>) gemm_bias<Element>;                   \
  template decltype(gemm_gelu_backward<Element>) gemm_gelu_backward<Element>; \
  template decltype(gemm_sums<Element>) gemm_sums<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
