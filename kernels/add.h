// y = a + b, element by element.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// a, b, y: f32 [n]; y may be a or b. Each gradient is dy itself.
void add_forward(Stream& stream, const float* a, const float* b, float* y, int64_t n);

}  // namespace hidup::kernels
