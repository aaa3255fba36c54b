// How a CPU multiplies bf16: by instructions of its own for that, or as f32, whose products can be
// the faster ones. Sums are f32 in either case, in another order. On GPUs there is nothing to
// choose.
#pragma once

#include <string>

namespace hidup::kernels {

// flop/s of one thread.
struct Bf16Rates {
  double native = 0.0;  // 0: the CPU, or the library for it, has no instructions for bf16
  double as_f32 = 0.0;
};

// Takes some milliseconds.
Bf16Rates measure_bf16_rates();

// From now on, in this process. At first, and where there are no instructions for it: as f32.
void multiply_bf16_natively(bool wanted);
bool bf16_is_native();

// For people: "kernels for AVX-512, products of bf16 by brg:avx512_core_amx_bf16" (as the library
// calls it), or "by f32". Empty on GPUs.
std::string describe_arithmetic();

}  // namespace hidup::kernels
