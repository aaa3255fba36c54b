// Sinusoidal positions added to embeddings (Vaswani et al., "Attention is all you
// need", 2017, section 3.5):
//   PE(p, 2i)   = sin(p / 10000^(2i/hidden))
//   PE(p, 2i+1) = cos(p / 10000^(2i/hidden))
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// y[b,s,:] = x[b,s,:] + PE(first_position + s, :); x, y: f32 [batch, sequence, hidden]; y
// may be x. The gradient of x is dy itself. The stream keeps the PE of the last call, and
// computes them only when another sequence, hidden or first_position is asked for.
void positions_forward(Stream& stream, const float* x, float* y, int64_t batch, int64_t sequence,
                       int64_t hidden, int64_t first_position);

}  // namespace hidup::kernels
