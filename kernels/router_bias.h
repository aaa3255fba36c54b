// Biases of experts in a router's choice (route_biased()) that balance the experts' loads without a
// loss (Wang et al., "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", 2024,
// algorithm 1; DeepSeek-V3, 2024, section 2.1.2).
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// bias[i] += speed * sign(the mean of load - load[first + i]), for a part of the experts. A
// gradient scale that is not finite leaves the biases unchanged, as it does the parameters.
struct RouterBias {
  float* bias;        // [n]
  const float* load;  // [experts], the choices of every expert in the whole step; exact below 2^24
  int64_t first;      // of the part
  int64_t n;
  int64_t experts;
  float speed;
  const float* gradient_scale;  // one value, read when the work runs
};
void move_router_bias(Stream& stream, const RouterBias& args);

}  // namespace hidup::kernels
