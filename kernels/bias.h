// Addition of a vector to every row.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y[r,:] = x[r,:] + b; x, y: [rows, n]; b: [n]; y may be x. The gradient of x is dy itself. Rows of
// x and y are `stride` elements apart, or dense if that is 0; gaps are neither read nor written.
template <typename Element>
void bias_forward(Stream& stream, const Element* x, const Element* b, Element* y, int64_t rows,
                  int64_t n, int64_t stride = 0);

// db (+)= the sum of the rows of dy; dy: [rows, n] with the same kind of stride; db: f32 [n].
template <typename Element>
void bias_backward(Stream& stream, const Element* dy, float* db, int64_t rows, int64_t n,
                   bool accumulate, int64_t stride = 0);

}  // namespace hidup::kernels
