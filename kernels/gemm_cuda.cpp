// cuBLASLt reads matrices by columns. Read so, a row-major matrix is its own transpose. Therefore
// c^T = op(b)^T op(a)^T: b is cuBLASLt's A, a its B, and n its number of rows.
#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>
#include <tuple>

#include "core/check.h"
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

// Of a, b and c, and of the bias and the input of an epilogue.
using Alignments = std::array<uint32_t, 5>;

template <typename Element, typename Result>
Alignments alignments_of(const Element* a, const Element* b, const Result* c, const Batch& batch,
                         const Epilogue<Element>& epilogue) {
  return {alignment_of(a, batch.a), alignment_of(b, batch.b), alignment_of(c, batch.c),
          alignment_of(epilogue.bias, 0), alignment_of(epilogue.input, 0)};
}

// An epilogue, as cuBLASLt is told: its D is c^T, and a bias has an element for each row of that.
struct LibraryEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* input = nullptr;
};

template <typename Element>
LibraryEpilogue for_library(const Epilogue<Element>& epilogue) {
  if (epilogue.input != nullptr) {
    return {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, epilogue.bias, epilogue.input};
  }
  return {epilogue.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
          epilogue.bias};
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
  Operation(const Product& p, const LibraryEpilogue& epilogue) {
    // Not CUBLAS_COMPUTE_32F_FAST_TF32: products keep all bits of f32.
    check_cublas(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    const auto operation = [](bool transposed) {
      return static_cast<int32_t>(transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.shape.transpose_b));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.shape.transpose_a));
    if (epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue.kind));
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
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
       const LibraryEpilogue& epilogue)
      : product_(p),
        a_(types.operand, p.shape.a_columns(), p.shape.transpose_a ? p.shape.k : p.shape.m,
           p.shape.lda(), p.batch.count, p.batch.a),
        b_(types.operand, p.shape.b_columns(), p.shape.transpose_b ? p.shape.n : p.shape.k,
           p.shape.ldb(), p.batch.count, p.batch.b),
        c_(types.result, p.shape.n, p.shape.m, p.shape.ldc(), p.batch.count, p.batch.c) {
    const Preference preference(types, alignments);
    const Operation operation(p, epilogue);
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

  void run(CudaStream& stream, const void* a, const void* b, void* c, bool accumulate,
           const LibraryEpilogue& epilogue) const {
    const Operation operation(product_, epilogue);
    const float alpha = 1.0F;
    const float beta = accumulate ? 1.0F : 0.0F;
    const size_t bytes = choice_.workspaceSize;
    void* const workspace = bytes > 0 ? stream.scratch(static_cast<int64_t>(bytes)) : nullptr;
    check_cublas(
        cublasLtMatmul(library(), operation.get(), &alpha, b, b_.get(), a, a_.get(), &beta, c,
                       c_.get(), c, c_.get(), &choice_.algo, workspace, bytes, stream.handle()),
        "cublasLtMatmul");
  }

 private:
  Product product_;
  MatrixLayout a_;
  MatrixLayout b_;
  MatrixLayout c_;
  cublasLtMatmulHeuristicResult_t choice_ = {};
  bool exists_ = false;
};

// All that a plan depends on.
using Key = std::array<int64_t, 20>;

Key key_of(const Product& p, const Types& types, const Alignments& alignments,
           cublasLtEpilogue_t epilogue) {
  return {types.operand,
          types.result,
          epilogue,
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
  const Key key = key_of(product, types, alignments, epilogue.kind);
  auto found = plans->find(key);
  if (found == plans->end()) {
    found = plans
                ->emplace(std::piecewise_construct, std::forward_as_tuple(key),
                          std::forward_as_tuple(product, types, alignments, epilogue))
                .first;
  }
  return found->second;
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
  const Types types = {kType<Element>, kType<Result>};
  plan_for(product, types, alignments_of(a, b, c, batch, Epilogue<Element>{}), {})
      .run(cuda_stream(stream), a, b, c, accumulate, {});
}

template <typename Element>
bool gemm_bias(Stream& stream, const Element* a, const Element* b, Element* c,
               const Product& product, const Epilogue<Element>& epilogue) {
  // cuBLASLt wants rows of `input` that are a multiple of 8 elements, and begin at 16 bytes.
  constexpr uint32_t kInputAlignment = 16;
  const Alignments alignments = alignments_of(a, b, c, product.batch, epilogue);
  if (epilogue.input != nullptr &&
      (product.shape.n % 8 != 0 || alignments.back() < kInputAlignment)) {
    return false;
  }
  const LibraryEpilogue told = for_library(epilogue);
  const Plan& plan = plan_for(product, {kType<Element>, kType<Element>}, alignments, told);
  if (plan.exists()) {
    plan.run(cuda_stream(stream), a, b, c, false, told);
  }
  return plan.exists();
}

#define INSTANTIATE(Element, Result) template decltype(gemm<Element, Result>) gemm<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

#define INSTANTIATE(Element) template decltype(gemm_bias<Element>) gemm_bias<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
