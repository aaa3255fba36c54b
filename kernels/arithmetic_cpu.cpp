#include "kernels/arithmetic.h"

#include <fmt/core.h>

#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/cpu_gemm.h"

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

}  // namespace

bool has_bf16_products() {
  return has(dnnl::cpu_isa::avx512_core_bf16);
}

bool bf16_products_are_faster() {
  return has(dnnl::cpu_isa::avx512_core_amx) ||
         (has_bf16_products() && __builtin_cpu_is("amd") != 0);
}

void multiply_bf16_natively(bool wanted) {
  native = wanted && has_bf16_products();
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
