// Sinusoidal positions added to embeddings (Vaswani et al., "Attention is all you need", 2017,
// section 3.5):
//   PE(p, 2i)   = sin(p / 10000^(2i/hidden))
//   PE(p, 2i+1) = cos(p / 10000^(2i/hidden))
#pragma once

#include <cstdint>

#include "core/region.h"
#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y = x + PE at the global position and channel of the element; x, y: the part of [batch, sequence,
// hidden] that `region` describes; y may be x. The gradient of x is dy itself. The stream stores
// the PE of the last call, and recomputes them only for another part of positions and channels.
template <typename Element>
void positions_forward(Stream& stream, const Element* x, Element* y, const Region& region);

}  // namespace hidup::kernels
