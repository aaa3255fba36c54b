#include "kernels/cuda_math.h"
#include "kernels/preconditions.h"
#include "kernels/router_bias.h"

namespace hidup::kernels {
namespace {

// A warp sums all loads and moves the biases of the part.
__global__ void __launch_bounds__(kWarp) move_kernel(RouterBias args) {
  if (!isfinite(*args.gradient_scale)) {
    return;
  }
  double total = 0.0;  // exact: loads are whole numbers
  for (int64_t e = threadIdx.x; e < args.experts; e += kWarp) {
    total += static_cast<double>(args.load[e]);
  }
  total = warp_reduce(total, Sum{});
  for (int64_t i = threadIdx.x; i < args.n; i += kWarp) {
    const double own =
        static_cast<double>(args.load[args.first + i]) * static_cast<double>(args.experts);
    args.bias[i] += own < total ? args.speed : own > total ? -args.speed : 0.0F;
  }
}

}  // namespace

void move_router_bias(Stream& stream, const RouterBias& args) {
  check_size(args);
  if (args.n > 0) {
    launch(stream, move_kernel, grid_of(1), kWarp, args);
  }
}

}  // namespace hidup::kernels
