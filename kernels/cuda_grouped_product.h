// Products of all experts with packed rows in one launch, for CUDA kernels: only the device knows
// the counts, so no library can compute them one by one.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/expert_matmul.h"

namespace hidup::kernels {

// y = x op(w) of every expert; x has rows of k elements and y of n. w: [experts, k, n], or
// [experts, n, k] if it is transposed.
template <typename Element>
struct GroupedProduct {
  const Element* x;
  const Element* w;
  Element* y;
  int64_t k;
  int64_t n;
  bool transpose_w;
};
template <typename Element>
void grouped_product(Stream& stream, const GroupedProduct<Element>& product, const int32_t* counts,
                     const ExpertSize& size);

// Does what expert_matmul_backward_weight() does, of packed rows.
template <typename Element>
void grouped_weight_gradient(Stream& stream, const ExpertMatmulBackwardWeight<Element>& args);

}  // namespace hidup::kernels
