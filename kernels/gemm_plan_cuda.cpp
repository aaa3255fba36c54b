#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "device/cuda_event.h"
#include "kernels/cuda_gemm_plan.h"
#include "kernels/preconditions.h"
#include "kernels/products.h"

namespace hidup::kernels {
namespace {

constexpr uint64_t kMaxWorkspace = uint64_t{32} << 20;  // bytes: NVIDIA's advice for sm_90
constexpr int kMostAlgorithms = 8;

void check_cublas(cublasStatus_t status, const char* call) {
  check(status == CUBLAS_STATUS_SUCCESS, "{} failed: {} ({})", call,
        cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

// Returns the handle, one per process as there is one device; it lives as long as the process.
cublasLtHandle_t library() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t created = nullptr;
    check_cublas(cublasLtCreate(&created), "cublasLtCreate");
    return created;
  }();
  return handle;
}

class Operation {
 public:
  Operation(const ProductKind& kind, const LibraryEpilogue& epilogue) {
    const MatmulShape& shape = kind.product.shape;
    // Not CUBLAS_COMPUTE_32F_FAST_TF32: products keep all bits of f32.
    check_cublas(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "cublasLtMatmulDescCreate");
    const auto operation = [](bool transposed) {
      return static_cast<int32_t>(transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.transpose_b));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.transpose_a));
    set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{kind.multiprocessors});
    if (epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue.kind));
    }
    if (epilogue.vector != nullptr) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.vector);
    }
    if (epilogue.input != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.input);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.n);
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
  explicit Preference(const ProductKind& kind) {
    check_cublas(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kind.alignments[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kind.alignments[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kind.alignments[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kind.alignments[2]);
    if (kind.result != CUDA_R_32F) {
      // Adds the parts of a split sum in f32 instead of in the result's type.
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

using Choices = std::map<std::vector<int64_t>, int>;

// The plans of the process.
struct Plans {
  std::mutex mutex;
  std::map<ProductKind::Key, ProductPlan> all;
  Choices choices;
  std::atomic<bool> timing = false;
};
Plans& plans() {
  static auto* const held = new Plans;
  return *held;
}

std::vector<int64_t> numbers(const ProductKind::Key& key) {
  return {key.begin(), key.end()};
}

int choice_of(const Choices& choices, const ProductKind::Key& key) {
  const auto found = choices.find(numbers(key));
  return found == choices.end() ? 0 : found->second;
}

bool is_captured(CudaStream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream.handle(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

MatrixLayout::MatrixLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading,
                           int64_t count, int64_t offset) {
  check_cublas(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns), leading),
               "cublasLtMatrixLayoutCreate");
  check_i32("products of a batch", count);
  const auto matrices = static_cast<int32_t>(count);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check_cublas(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof(value)),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, matrices);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, offset);
}

MatrixLayout::~MatrixLayout() {
  cublasLtMatrixLayoutDestroy(layout_);
}

ProductKind::Key ProductKind::key() const {
  const auto& [shape, batch] = product;
  return {operand,
          result,
          epilogue,
          multiprocessors,
          shape.m,
          shape.n,
          shape.k,
          shape.transpose_a ? 1 : 0,
          shape.transpose_b ? 1 : 0,
          shape.lda(),
          shape.ldb(),
          shape.ldc(),
          batch.count,
          batch.a,
          batch.b,
          batch.c,
          alignments[0],
          alignments[1],
          alignments[2],
          alignments[3],
          alignments[4]};
}

ProductPlan::ProductPlan(const ProductKind& kind, const LibraryEpilogue& epilogue)
    : kind_(kind),
      a_(kind.operand, kind.product.shape.a_columns(), kind.product.shape.a_rows(),
         kind.product.shape.lda(), kind.product.batch.count, kind.product.batch.a),
      b_(kind.operand, kind.product.shape.b_columns(), kind.product.shape.b_rows(),
         kind.product.shape.ldb(), kind.product.batch.count, kind.product.batch.b),
      c_(kind.result, kind.product.shape.n, kind.product.shape.m, kind.product.shape.ldc(),
         kind.product.batch.count, kind.product.batch.c),
      algorithms_(kMostAlgorithms) {
  const Preference preference(kind);
  const Operation operation(kind, epilogue);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      library(), operation.get(), b_.get(), a_.get(), c_.get(), c_.get(), preference.get(),
      kMostAlgorithms, algorithms_.data(), &found);
  algorithms_.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(found) : 0);
  std::erase_if(algorithms_,
                [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  // If the product itself is wrong, the attempt without the epilogue shows the error.
  check(exists() || epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT,
        "cuBLASLt has no algorithm for {} product(s) of m={} n={} k={}: {}",
        kind.product.batch.count, kind.product.shape.m, kind.product.shape.n, kind.product.shape.k,
        cublasLtGetStatusString(status));
}

int64_t ProductPlan::workspace() const {
  size_t bytes = algorithms_[chosen_].workspaceSize;
  for (const auto& algorithm : algorithms_) {
    bytes = plans().timing ? std::max(bytes, algorithm.workspaceSize) : bytes;
  }
  return static_cast<int64_t>(bytes);
}

void ProductPlan::run(CudaStream& stream, const ProductOperands& operands, void* workspace) {
  if (plans().timing && seconds_.empty() && !is_captured(stream)) {
    time(stream, operands, workspace);
  }
  run_by(chosen_, stream, operands, workspace);
}

void ProductPlan::choose(int algorithm) {
  check(algorithm >= 0 && (static_cast<size_t>(algorithm) < algorithms_.size() || algorithm == 0),
        "algorithm {} of a product for which cuBLASLt proposes {}", algorithm, algorithms_.size());
  chosen_ = static_cast<size_t>(algorithm);
}

void ProductPlan::run_by(size_t algorithm, CudaStream& stream, const ProductOperands& operands,
                         void* workspace) const {
  const Operation operation(kind_, operands.epilogue);
  const float alpha = 1.0F;
  const float beta = operands.accumulate ? 1.0F : 0.0F;
  const cublasLtMatmulHeuristicResult_t& choice = algorithms_[algorithm];
  check_cublas(cublasLtMatmul(library(), operation.get(), &alpha, operands.b, b_.get(), operands.a,
                              a_.get(), &beta, operands.c, c_.get(), operands.c, c_.get(),
                              &choice.algo, workspace, choice.workspaceSize, stream.handle()),
               "cublasLtMatmul");
}

void ProductPlan::time(CudaStream& stream, const ProductOperands& operands, void* workspace) {
  constexpr int kRuns = 3;
  const EventHandle begin;
  const EventHandle end;
  for (size_t i = 0; i < algorithms_.size(); ++i) {
    run_by(i, stream, operands, workspace);  // loads the kernel
    check_cuda(cudaEventRecord(begin.get(), stream.handle()), "cudaEventRecord");
    for (int run = 0; run < kRuns; ++run) {
      run_by(i, stream, operands, workspace);
    }
    check_cuda(cudaEventRecord(end.get(), stream.handle()), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float milliseconds = 0.0F;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    seconds_.push_back(1e-3 * static_cast<double>(milliseconds) / kRuns);
  }
  chosen_ = static_cast<size_t>(std::ranges::min_element(seconds_) - seconds_.begin());
}

ProductPlan& plan_for(const ProductKind& kind, const LibraryEpilogue& epilogue) {
  const std::lock_guard lock(plans().mutex);
  const ProductKind::Key key = kind.key();
  auto found = plans().all.find(key);
  if (found == plans().all.end()) {
    found = plans()
                .all
                .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                         std::forward_as_tuple(kind, epilogue))
                .first;
    found->second.choose(choice_of(plans().choices, key));
  }
  return found->second;
}

TimeAlgorithms::TimeAlgorithms() {
  plans().timing = true;
}

TimeAlgorithms::~TimeAlgorithms() {
  plans().timing = false;
}

std::vector<AlgorithmTimes> TimeAlgorithms::times() const {
  const std::lock_guard lock(plans().mutex);
  std::vector<AlgorithmTimes> times;
  for (const auto& [key, plan] : plans().all) {
    if (!plan.seconds().empty()) {
      times.push_back({numbers(key), plan.seconds()});
    }
  }
  return times;
}

void choose_algorithms(const std::map<std::vector<int64_t>, int>& choices) {
  const std::lock_guard lock(plans().mutex);
  plans().choices = choices;
  for (auto& [key, plan] : plans().all) {
    plan.choose(choice_of(choices, key));
  }
}

}  // namespace hidup::kernels
