// The end of half a transformer block, in one pass over memory: dropout of the branch, the sum with
// the residual, and layer normalization (layer_norm.h), which may be RMS norm.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// sum = residual + dropout(branch), y = layer_norm(sum): like dropout(), add_forward() and
// layer_norm_forward() in turn, except that dropout's result is not rounded. The backward pass
// consists of the backward passes of the three.
template <typename Element>
struct ResidualNorm {
  const Element* branch;    // [rows, n]
  const Element* residual;  // [rows, n]
  DropoutMask dropout;      // of [rows, n]; p = 0: none; rows are rows of the global tensor, too
  const Element* gamma;     // [n]
  const Element* beta;      // [n]; null: RMS norm
  Element* sum;             // [rows, n]; may be branch or residual
  Element* y;               // [rows, n]
  float* mean;              // f32 [rows]; null without beta
  float* rstd;              // f32 [rows]
  int64_t rows;
  int64_t n;  // >= 1
  float eps;
};
template <typename Element>
void residual_norm(Stream& stream, const ResidualNorm<Element>& args);

}  // namespace hidup::kernels
