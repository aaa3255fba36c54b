// What ends half a block of a transformer: dropout of a branch, its sum with the residual, and
// layer normalization of that, in one pass over memory.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// As dropout() has it; none where p is 0.
struct BranchDropout {
  Region region;
  float p = 0.0F;
  uint64_t key = 0;
  const StepState* state = nullptr;
};

// sum = residual + dropout(branch), y = layer_norm(sum): as dropout(), add_forward() and
// layer_norm_forward() one after the other, except that what dropout leaves is not rounded. branch,
// residual, sum, y: [rows, n] with n >= 1; sum may be branch or residual. Each row is one of the
// global tensor too. gamma, beta: [n]; mean, rstd: f32 [rows]. The backward passes are those of the
// three.
template <typename Element>
void residual_norm(Stream& stream, const Element* branch, const Element* residual,
                   const BranchDropout& dropout, const Element* gamma, const Element* beta,
                   Element* sum, Element* y, float* mean, float* rstd, int64_t rows, int64_t n,
                   float eps);

}  // namespace hidup::kernels
