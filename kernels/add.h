// Elementwise sum y = a + b.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// a, b, y: [n]; y may be a or b. Both gradients are dy itself.
template <typename Element>
void add_forward(Stream& stream, const Element* a, const Element* b, Element* y, int64_t n);

}  // namespace hidup::kernels
