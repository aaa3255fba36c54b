#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "core/check.h"
#include "kernels/cpu_gemm.h"

namespace hidup::kernels {
namespace {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::desc describe(int64_t rows, int64_t columns, const ConstMatrix<BFloat16>& matrix) {
  const dnnl::memory::dims strides = matrix.transposed ? dnnl::memory::dims{1, matrix.stride}
                                                       : dnnl::memory::dims{matrix.stride, 1};
  return {{rows, columns}, dnnl::memory::data_type::bf16, strides};
}

// A product of one shape, which a thread creates once.
struct Multiplication {
  dnnl::memory::desc a, b, c;
  dnnl::matmul::primitive_desc choice;
  dnnl::matmul run;

  Multiplication(const dnnl::memory::desc& of_a, const dnnl::memory::desc& of_b,
                 const dnnl::memory::desc& of_c, bool accumulate)
      : a(of_a), b(of_b), c(of_c), choice(choose(a, b, c, options(accumulate))), run(choice) {}

  // oneDNN 3, as in Debian 13, takes the descriptions in one call, and oneDNN 2 in two.
  static dnnl::matmul::primitive_desc choose(const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b,
                                             const dnnl::memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
    return {engine(), a, b, c, attributes};
#else
    return {dnnl::matmul::desc(a, b, c), attributes, engine()};
#endif
  }

  static dnnl::primitive_attr options(bool accumulate) {
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sums;
      sums.append_sum(1.0F);
      attributes.set_post_ops(sums);
    }
    return attributes;
  }
};

const Multiplication& multiplication(int64_t m, int64_t n, int64_t k,
                                     const ConstMatrix<BFloat16>& a, const ConstMatrix<BFloat16>& b,
                                     bool accumulate, int64_t c_stride) {
  constexpr size_t kMost = 1024;  // experts have other numbers of rows in every step
  const std::tuple key(m, n, k, a.stride, a.transposed, b.stride, b.transposed, accumulate,
                       c_stride);
  thread_local std::map<decltype(key), Multiplication> known;
  auto found = known.find(key);
  if (found == known.end()) {
    if (known.size() == kMost) {
      known.clear();
    }
    const dnnl::memory::desc c({m, n}, dnnl::memory::data_type::f32,
                               dnnl::memory::dims{c_stride, 1});
    found = known.try_emplace(key, describe(m, k, a), describe(k, n, b), c, accumulate).first;
  }
  return found->second;
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<float> a, ConstMatrix<float> b, float beta,
          float* c, int64_t c_stride) noexcept {
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                 a.stride, b.data, b.stride, beta, c, c_stride);
  check(status == dnnl_success, "dnnl_sgemm of m={} n={} k={} returned status {}", m, n, k,
        static_cast<int>(status));
}

void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<BFloat16> a, ConstMatrix<BFloat16> b,
          float beta, float* c, int64_t c_stride) noexcept {
  thread_local dnnl::stream stream(engine());
  const Multiplication& product = multiplication(m, n, k, a, b, beta != 0.0F, c_stride);
  const auto at = [](const dnnl::memory::desc& desc, const void* data) {
    return dnnl::memory(desc, engine(), const_cast<void*>(data));
  };
  product.run.execute(stream, {{DNNL_ARG_SRC, at(product.a, a.data)},
                               {DNNL_ARG_WEIGHTS, at(product.b, b.data)},
                               {DNNL_ARG_DST, at(product.c, c)}});
}

std::string name_of_bf16_gemm() {
  const ConstMatrix<BFloat16> matrix = {.data = nullptr, .stride = 256};
  return multiplication(256, 256, 256, matrix, matrix, false, 256).choice.impl_info_str();
}

}  // namespace hidup::kernels
