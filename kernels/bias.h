// A vector added to every row.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y[r,:] = x[r,:] + b; x, y: [rows, n]; b: [n]; y may be x. The gradient of x is
// dy itself.
template <typename Element>
void bias_forward(Stream& stream, const Element* x, const Element* b, Element* y, int64_t rows,
                  int64_t n);

// db (+)= the sum of the rows of dy; dy: [rows, n]; db: f32 [n].
template <typename Element>
void bias_backward(Stream& stream, const Element* dy, float* db, int64_t rows, int64_t n,
                   bool accumulate);

}  // namespace hidup::kernels
