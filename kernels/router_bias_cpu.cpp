#include "kernels/router_bias.h"

#include <cmath>

#include "kernels/preconditions.h"

namespace hidup::kernels {

void move_router_bias(Stream& stream, const RouterBias& args) {
  check_size(args);
  stream.enqueue([=] {
    if (!std::isfinite(*args.gradient_scale)) {
      return;
    }
    double total = 0.0;  // exact: loads are whole numbers
    for (int64_t e = 0; e < args.experts; ++e) {
      total += static_cast<double>(args.load[e]);
    }
    for (int64_t i = 0; i < args.n; ++i) {
      const double own =
          static_cast<double>(args.load[args.first + i]) * static_cast<double>(args.experts);
      args.bias[i] += own < total ? args.speed : own > total ? -args.speed : 0.0F;
    }
  });
}

}  // namespace hidup::kernels
