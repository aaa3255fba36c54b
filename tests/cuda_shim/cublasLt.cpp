// cuBLASLt: the checks of its calls; cublasLt_product.cpp computes.
#include "cublasLt.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "cublasLt_product.h"
#include "state.h"
#include "stream.h"

struct CudaShimMatmulLibrary {};

struct CudaShimMatmulPreference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignments = {256, 256, 256, 256};  // of a, b, c and d
};

namespace cuda_shim {
namespace {

// Bytes of workspace of each algorithm here. All algorithms do the same.
constexpr std::array<uint64_t, 3> kWorkspaces = {4096, 0, 8192};

std::atomic<int64_t> calls_given = 0;
std::atomic<int64_t> bytes_given = 0;
std::atomic<int64_t> limited_given = 0;
std::atomic<int64_t> first_given = 0;
std::array<std::atomic<double>, kWorkspaces.size()> delays = {};  // seconds

constexpr int64_t kInputMultiple = 8;  // of elements from one column of GELU's input to the next
constexpr uintptr_t kInputAlignment = 16;

// An algorithm, and the problem that it was chosen for.
struct Choice {
  uint32_t algorithm;
  uint32_t workspace;
  uint64_t problem;
  std::array<uint32_t, 4> alignments;
  std::array<uint32_t, 2> of_epilogue;  // alignments of its vector and of GELU's input
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

cublasStatus_t refuse(cublasStatus_t status, const char* why) {
  std::fprintf(stderr, "cuda_shim: cuBLASLt: %s\n", why);
  return status;
}

cublasStatus_t invalid(const char* why) {
  return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
}

template <typename T>
cublasStatus_t take(T& attribute, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) {
    return invalid("an attribute has another size");
  }
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_known(uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
  }
  return false;
}

int multiprocessors_of_device() {
  int count = 0;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
  return count;
}

cublasStatus_t check_epilogue(const CudaShimMatmulDesc& desc, const CudaShimMatrixLayout& d) {
  if (!is_known(desc.epilogue)) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the shim does not know such an epilogue");
  }
  if (desc.has_epilogue() && d.count > 1) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the shim knows no epilogue of a batch");
  }
  if ((desc.has_vector() && desc.vector == nullptr) ||
      (desc.has_input() && desc.input == nullptr)) {
    return invalid("an epilogue lacks its operands");
  }
  const auto address = reinterpret_cast<uintptr_t>(desc.input);
  if (desc.has_input() &&
      (desc.input_stride % kInputMultiple != 0 ||
       desc.input_stride < static_cast<int64_t>(d.rows) || address % kInputAlignment != 0)) {
    return invalid("the columns of GELU's input are too short, or not aligned");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t make_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, Problem& problem) {
  if (desc == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return invalid("a descriptor is null");
  }
  if (desc->multiprocessors < 0 || desc->multiprocessors > multiprocessors_of_device()) {
    return invalid("the device has not so many multiprocessors");
  }
  if (!(*c == *d)) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the shim knows no c that is not d");
  }
  const bool ta = desc->transpose_a == CUBLAS_OP_T;
  const bool tb = desc->transpose_b == CUBLAS_OP_T;
  problem = {*desc, *a, *b, *d, d->rows, d->columns, ta ? a->rows : a->columns};
  if ((ta ? a->columns : a->rows) != problem.m || (tb ? b->rows : b->columns) != problem.n ||
      (tb ? b->columns : b->rows) != problem.k) {
    return invalid("the sizes of the matrices do not fit");
  }
  if (a->type != b->type || (d->type != a->type && d->type != CUDA_R_32F)) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the types do not go together");
  }
  if (a->count != d->count || b->count != d->count) {
    return invalid("the batches have different counts");
  }
  const auto matrix = static_cast<int64_t>(d->columns - 1) * d->stride;
  if (d->count > 1 && d->offset < matrix + static_cast<int64_t>(d->rows)) {
    return invalid("the products of a batch overlap");
  }
  return check_epilogue(*desc, *d);
}

// Returns the alignments of an epilogue's addresses.
std::array<uint32_t, 2> alignments_of(const CudaShimMatmulDesc& desc) {
  const auto alignment = [](const void* data) {
    const uintptr_t bits = reinterpret_cast<uintptr_t>(data) | uintptr_t{256};
    return static_cast<uint32_t>(bits & (~bits + 1));
  };
  return {alignment(desc.vector), alignment(desc.input)};
}

// Returns true if a, b, c and d are aligned as the algorithm's choice assumed.
bool aligned(const std::array<const void*, 4>& data,
             const std::array<const CudaShimMatrixLayout*, 4>& layouts, const Choice& choice) {
  for (size_t i = 0; i < data.size(); ++i) {
    const auto bytes = static_cast<uintptr_t>(layouts[i]->offset) * layouts[i]->element();
    if ((reinterpret_cast<uintptr_t>(data[i]) | bytes) % choice.alignments[i] != 0) {
      return false;
    }
  }
  return true;
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto* x = static_cast<const char*>(a);
  const auto* y = static_cast<const char*>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// Checks the epilogue's operands; `others`: a, b and d. Its output must overlap nothing, and its
// input must not be d.
cublasStatus_t check_operands(const Problem& p, const Choice& choice,
                              const std::array<const void*, 3>& others) {
  if (!p.desc.has_epilogue()) {
    return CUBLAS_STATUS_SUCCESS;
  }
  const std::array<uint32_t, 2> alignments = alignments_of(p.desc);
  const size_t vector_bytes = p.vector_bytes();
  const size_t input_bytes = p.input_bytes();
  if (alignments[0] < choice.of_epilogue[0] || alignments[1] < choice.of_epilogue[1]) {
    return invalid("an operand of the epilogue is not aligned as when the algorithm was chosen");
  }
  if ((p.desc.has_vector() && !device_holds(p.desc.vector, vector_bytes)) ||
      (p.desc.has_input() && !device_holds(p.desc.input, input_bytes))) {
    return invalid("an operand of the epilogue does not lie in the device's memory");
  }
  const bool writes_input = p.desc.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const std::array<size_t, 3> bytes = {p.a.bytes(), p.b.bytes(), p.d.bytes()};
  for (size_t i = 0; i < others.size(); ++i) {
    const bool is_d = i + 1 == others.size();
    if ((is_d || writes_input) && overlap(p.desc.input, input_bytes, others[i], bytes[i])) {
      return invalid("GELU's input overlaps another operand");
    }
    if ((is_d || p.desc.has_sums()) && overlap(p.desc.vector, vector_bytes, others[i], bytes[i])) {
      return invalid("the vector of an epilogue overlaps another operand");
    }
  }
  if (overlap(p.desc.vector, vector_bytes, p.desc.input, input_bytes)) {
    return invalid("the bias is overwritten");
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cuda_shim

using cuda_shim::invalid;
using cuda_shim::take;

size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new CudaShimMatmulLibrary;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) {
    return invalid("the shim computes in f32 only");
  }
  *desc = new CudaShimMatmulDesc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  if (desc == nullptr) {
    return invalid("a descriptor is null");
  }
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(desc->vector, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(desc->input, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(desc->input_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return take(desc->multiprocessors, value, bytes);
  }
  return invalid("the shim does not know such an attribute");
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F) {
    return invalid("the shim knows f32, bf16 and f16 only");
  }
  if (rows == 0 || columns == 0 || stride < static_cast<int64_t>(rows)) {
    return invalid("a matrix is empty, or its columns overlap");
  }
  *layout =
      new CudaShimMatrixLayout{.type = type, .rows = rows, .columns = columns, .stride = stride};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  if (layout == nullptr) {
    return invalid("a layout is null");
  }
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
    return take(layout->offset, value, bytes);
  }
  const cublasStatus_t status = take(layout->count, value, bytes);
  return layout->count < 1 ? invalid("a batch is empty") : status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new CudaShimMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (preference == nullptr) {
    return invalid("a preference is null");
  }
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return take(preference->workspace, value, bytes);
  }
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    return take(preference->reductions, value, bytes);
  }
  const auto operand = static_cast<size_t>(attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  return take(preference->alignments.at(operand), value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  cuda_shim::Problem problem = {};
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (preference == nullptr || results == nullptr || found == nullptr || requested < 1) {
    return invalid("nothing to choose by, or no place for the choice");
  }
  const cublasStatus_t status = cuda_shim::make_problem(desc, a, b, c, d, problem);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (problem.d.type != CUDA_R_32F &&
      preference->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    return cuda_shim::refuse(CUBLAS_STATUS_NOT_SUPPORTED, "parts of sums may be added in 16 bits");
  }
  *found = std::min(requested, static_cast<int>(cuda_shim::kWorkspaces.size()));
  for (int i = 0; i < *found; ++i) {
    const uint64_t wanted = cuda_shim::kWorkspaces.at(static_cast<size_t>(i));
    const cuda_shim::Choice choice = {
        static_cast<uint32_t>(i), static_cast<uint32_t>(std::min(preference->workspace, wanted)),
        problem.hash(), preference->alignments, cuda_shim::alignments_of(problem.desc)};
    results[i] = {.workspaceSize = choice.workspace, .state = CUBLAS_STATUS_SUCCESS};
    std::memcpy(&results[i].algo, &choice, sizeof(choice));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  using cuda_shim::device_holds;
  cuda_shim::Problem problem = {};
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  const cublasStatus_t status =
      cuda_shim::make_problem(desc, a_layout, b_layout, c_layout, d_layout, problem);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (alpha == nullptr || beta == nullptr || algo == nullptr) {
    return invalid("alpha, beta or the algorithm is null");
  }
  if (!device_holds(a, problem.a.bytes()) || !device_holds(b, problem.b.bytes()) ||
      !device_holds(d, problem.d.bytes())) {
    return invalid("an operand does not lie in the device's memory");
  }
  if (c != d || cuda_shim::overlap(a, problem.a.bytes(), d, problem.d.bytes()) ||
      cuda_shim::overlap(b, problem.b.bytes(), d, problem.d.bytes())) {
    return invalid("c is not d, or d overlaps a or b");
  }
  cuda_shim::Choice choice = {};
  std::memcpy(&choice, algo, sizeof(choice));
  if (choice.problem != problem.hash()) {
    return invalid("the algorithm was chosen for another problem");
  }
  if (!cuda_shim::aligned({a, b, c, d}, {&problem.a, &problem.b, &problem.d, &problem.d}, choice)) {
    return invalid("an operand is not aligned as the algorithm was promised");
  }
  const cublasStatus_t epilogue = cuda_shim::check_operands(problem, choice, {a, b, d});
  if (epilogue != CUBLAS_STATUS_SUCCESS) {
    return epilogue;
  }
  if (workspace_bytes < choice.workspace ||
      (choice.workspace > 0 && !device_holds(workspace, workspace_bytes))) {
    return invalid("the workspace is too small, or not in the device's memory");
  }
  float factors[2] = {};
  std::memcpy(&factors[0], alpha, sizeof(float));
  std::memcpy(&factors[1], beta, sizeof(float));
  if (problem.desc.has_epilogue() && !problem.desc.has_sums() && factors[1] != 0.0F) {
    return invalid("the shim knows no epilogue of a sum");
  }
  cuda_shim::calls_given += 1;
  cuda_shim::limited_given += problem.desc.multiprocessors > 0 ? 1 : 0;
  cuda_shim::bytes_given += static_cast<int64_t>(problem.a.bytes() + problem.b.bytes() +
                                                 problem.vector_bytes() + problem.input_bytes() +
                                                 problem.d.bytes() * (factors[1] == 0.0F ? 1 : 2));
  cuda_shim::first_given += choice.algorithm == 0 ? 1 : 0;
  const double delay = cuda_shim::delays.at(choice.algorithm);
  cuda_shim::stream_or_default(stream).give([=, workspace_of = choice.workspace] {
    const cuda_shim::DeviceAccess access;
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    if (workspace_of > 0) {
      std::memset(workspace, 0xFF, workspace_of);  // NaN: the caller must not keep data there
    }
    cuda_shim::multiply(problem, a, b, d, factors[0], factors[1]);
  });
  return CUBLAS_STATUS_SUCCESS;
}

CudaShimProducts cuda_shim_products() {
  return {cuda_shim::calls_given, cuda_shim::bytes_given, cuda_shim::limited_given,
          cuda_shim::first_given};
}

void cuda_shim_delay_algorithm(int algorithm, double seconds) {
  cuda_shim::delays.at(static_cast<size_t>(algorithm)) = seconds;
}
