#include "kernels/cuda_math.h"
#include "kernels/positions.h"

namespace hidup::kernels {
namespace {

// A thread computes the encoding of one position and channel, for all samples: in double, for
// positions may be large.
__global__ void __launch_bounds__(kThreads)
    positions_kernel(const float* x, float* y, Region region) {
  const int64_t channels = region.extent[2];
  const int64_t sample = region.extent[1] * channels;
  for (int64_t i = thread_of_grid(); i < sample; i += threads_of_grid()) {
    const int64_t channel = region.start[2] + i % channels;
    const double exponent =
        static_cast<double>(channel - channel % 2) / static_cast<double>(region.global[2]);
    const double angle =
        static_cast<double>(region.start[1] + i / channels) * pow(10000.0, -exponent);
    const auto encoding = static_cast<float>(channel % 2 == 0 ? sin(angle) : cos(angle));
    for (int64_t b = 0; b < region.extent[0]; ++b) {
      y[b * sample + i] = x[b * sample + i] + encoding;
    }
  }
}

}  // namespace

void positions_forward(Stream& stream, const float* x, float* y, const Region& region) {
  launch(stream, positions_kernel, blocks_for(region.extent[1] * region.extent[2], kThreads),
         kThreads, x, y, region);
}

}  // namespace hidup::kernels
