#include "kernels/arithmetic.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>
#include <type_traits>
#include <vector>

#include "kernels/cpu_gemm.h"
#include "kernels/cpu_team.h"

namespace hidup::kernels {
namespace {

std::atomic<bool> native = false;

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

Bf16Rates measure_bf16_rates() {
  constexpr int64_t kSize = 384;
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  const OneThread alone;
  const std::vector<float> floats(kSize * kSize, 1.0F);
  const std::vector<BFloat16> halves(kSize * kSize, BFloat16(1.0F));
  std::vector<float> c(kSize * kSize);
  const auto rate = [&](const auto* data) {
    const ConstMatrix<std::remove_cvref_t<decltype(*data)>> matrix = {.data = data,
                                                                      .stride = kSize};
    const auto multiply = [&] { gemm(kSize, kSize, kSize, matrix, matrix, 0.0F, c.data(), kSize); };
    return kFlops / seconds_of(multiply);
  };
  return {.native = has_instructions() ? rate(halves.data()) : 0.0, .as_f32 = rate(floats.data())};
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
  return fmt::format("kernels for {}, products of bf16 by {}", use_avx512() ? "AVX-512" : kBaseline,
                     bf16_is_native() ? name_of_bf16_gemm() : "f32");
}

}  // namespace hidup::kernels
