// Sums of what other ranks have rounded and sent.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// sum: [n]; parts: [count, n], of 16 bits. Adds the parts to the sum in f32, the first one first,
// so that repeated runs have the same bits.
template <typename Element>
void add_parts(Stream& stream, const Element* parts, int64_t count, float* sum, int64_t n);

}  // namespace hidup::kernels
