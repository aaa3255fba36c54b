// Conversion between element types.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y = x, rounded; x, y: [n], float on one side and any Element on the other.
template <typename From, typename To>
void convert(Stream& stream, const From* x, To* y, int64_t n);

}  // namespace hidup::kernels
