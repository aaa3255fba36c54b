// The arithmetic of bf16 products on a CPU: its own bf16 instructions, or f32, which can be faster.
// Sums are f32 in either case, in different orders. GPUs have no such choice.
#pragma once

#include <string>

namespace hidup::kernels {

// Returns true if the CPU and its library have instructions for bf16 products.
bool has_bf16_products();

// Returns true if those are clearly faster than f32 products: AMX, and AMD's AVX-512 BF16, which
// has twice the rate. Intel's AVX-512 BF16 without AMX has at most the rate of f32. The kind of CPU
// decides, not a measurement, so that a repeated run computes the same way.
bool bf16_products_are_faster();

// Sets the arithmetic of this process. The default, and without instructions the only one, is f32.
void multiply_bf16_natively(bool wanted);
bool bf16_is_native();

// Returns text for people: "kernels for AVX-512, products of bf16 by brg:avx512_core_amx_bf16" (the
// library's name), or "by f32". Empty on GPUs.
std::string describe_arithmetic();

}  // namespace hidup::kernels
