#include "kernels/cuda_elements.h"
#include "kernels/positions.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// A thread computes the encoding of one position and channel, for all samples, in double because
// positions may be large.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    positions_kernel(const Element* x, Element* y, Region region) {
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
      y[b * sample + i] = narrow<Element>(widen(x[b * sample + i]) + encoding);
    }
  }
}

}  // namespace

template <typename Element>
void positions_forward(Stream& stream, const Element* x, Element* y, const Region& region) {
  check_region("positions", region, 3);
  launch(stream, positions_kernel<Element>,
         blocks_for(region.extent[1] * region.extent[2], kThreads), kThreads, x, y, region);
}

HIDUP_INSTANTIATE(positions_forward);

}  // namespace hidup::kernels
