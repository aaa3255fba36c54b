// How a CPU multiplies bf16: by instructions of its own for that, or as f32, whose products can be
// the faster ones. Sums are f32 in either case, in another order. On GPUs there is nothing to
// choose.
#pragma once

#include <string>

namespace hidup::kernels {

// The CPU, and the library for it, has instructions for products of bf16.
bool has_bf16_products();

// And they are clearly faster than products of f32: AMX, and AMD's AVX-512 BF16, which has twice
// the rate. Intel's AVX-512 BF16 without AMX has at most the rate of f32. The kind of the CPU
// decides and no measurement, so that a repeated run takes the same way.
bool bf16_products_are_faster();

// From now on, in this process. At first, and where there are no instructions for it: as f32.
void multiply_bf16_natively(bool wanted);
bool bf16_is_native();

// For people: "kernels for AVX-512, products of bf16 by brg:avx512_core_amx_bf16" (as the library
// calls it), or "by f32". Empty on GPUs.
std::string describe_arithmetic();

}  // namespace hidup::kernels
