// A vector added to every row.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// y[r,:] = x[r,:] + b; x, y: f32 [rows, n]; b: f32 [n]; y may be x. The gradient of x is
// dy itself.
void bias_forward(Stream& stream, const float* x, const float* b, float* y, int64_t rows,
                  int64_t n);

// db (+)= the sum of the rows of dy; dy: f32 [rows, n]; db: f32 [n].
void bias_backward(Stream& stream, const float* dy, float* db, int64_t rows, int64_t n,
                   bool accumulate);

}  // namespace hidup::kernels
