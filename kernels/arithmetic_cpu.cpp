#include "kernels/arithmetic.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <vector>

#include "kernels/cpu_gemm.h"
#include "kernels/cpu_versions.h"

namespace hidup::kernels {
namespace {

using dnnl::matmul;
using dnnl::memory;

std::atomic<bool> native = false;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

#ifdef __AVX512F__
constexpr const char* kBaseline = "AVX-512";
#else
constexpr const char* kBaseline = "AVX2";
#endif

bool has(dnnl::cpu_isa wanted) {
  const int isa = static_cast<int>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<int>(wanted)) == static_cast<int>(wanted);
}

bool has_instructions() {
  return has(dnnl::cpu_isa::avx512_core_bf16);
}

memory::desc describe(int64_t rows, int64_t columns, const ConstMatrix<BFloat16>& matrix) {
  const memory::dims strides =
      matrix.transposed ? memory::dims{1, matrix.stride} : memory::dims{matrix.stride, 1};
  return {{rows, columns}, memory::data_type::bf16, strides};
}

// A product of one shape, which a thread makes once.
struct Multiplication {
  memory::desc a, b, c;
  matmul::primitive_desc choice;
  matmul run;

  Multiplication(const memory::desc& of_a, const memory::desc& of_b, const memory::desc& of_c,
                 bool accumulate)
      : a(of_a),
        b(of_b),
        c(of_c),
        choice(matmul::desc(a, b, c), options(accumulate), engine()),
        run(choice) {}

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
    const memory::desc c({m, n}, memory::data_type::f32, memory::dims{c_stride, 1});
    found = known.try_emplace(key, describe(m, k, a), describe(k, n, b), c, accumulate).first;
  }
  return found->second;
}

// The least of a few times, in seconds.
template <typename Work>
double seconds_of(Work work) {
  using Clock = std::chrono::steady_clock;
  double least = 0.0;
  for (int i = 0; i < 6; ++i) {
    const Clock::time_point start = Clock::now();
    work();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    least = i <= 1 ? took : std::min(least, took);  // the first one prepares
  }
  return least;
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<BFloat16> a, ConstMatrix<BFloat16> b,
          float beta, float* c, int64_t c_stride) noexcept {
  thread_local dnnl::stream stream(engine());
  const Multiplication& product = multiplication(m, n, k, a, b, beta != 0.0F, c_stride);
  const auto at = [](const memory::desc& desc, const void* data) {
    return memory(desc, engine(), const_cast<void*>(data));
  };
  product.run.execute(stream, {{DNNL_ARG_SRC, at(product.a, a.data)},
                               {DNNL_ARG_WEIGHTS, at(product.b, b.data)},
                               {DNNL_ARG_DST, at(product.c, c)}});
}

// One thread of a region computes, as in the kernels.
Bf16Rates measure_bf16_rates() {
  constexpr int64_t kSize = 384;
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  const std::vector<float> floats(kSize * kSize, 1.0F);
  const std::vector<BFloat16> halves(kSize * kSize, BFloat16(1.0F));
  std::vector<float> c(kSize * kSize);
  Bf16Rates rates;
#pragma omp parallel num_threads(1)
  {
    const ConstMatrix<float> of_floats = {.data = floats.data(), .stride = kSize};
    const ConstMatrix<BFloat16> of_halves = {.data = halves.data(), .stride = kSize};
    rates.as_f32 = kFlops / seconds_of([&] {
                     gemm(kSize, kSize, kSize, of_floats, of_floats, 0.0F, c.data(), kSize);
                   });
    if (has_instructions()) {
      rates.native = kFlops / seconds_of([&] {
                       gemm(kSize, kSize, kSize, of_halves, of_halves, 0.0F, c.data(), kSize);
                     });
    }
  }
  return rates;
}

void multiply_bf16_natively(bool wanted) {
  native = wanted && has_instructions();
}

bool bf16_is_native() {
  return native;
}

bool use_avx512() {
  static const bool use = has(dnnl::cpu_isa::avx512_core);
  return use;
}

std::string describe_arithmetic() {
  std::string bf16 = "f32";
  if (bf16_is_native()) {
    const ConstMatrix<BFloat16> matrix = {.data = nullptr, .stride = 256};
    bf16 = multiplication(256, 256, 256, matrix, matrix, false, 256).choice.impl_info_str();
  }
  return fmt::format("kernels for {}, products of bf16 by {}", use_avx512() ? "AVX-512" : kBaseline,
                     bf16);
}

}  // namespace hidup::kernels
