#include <cmath>

#include "kernels/cpu_table.h"
#include "kernels/cpu_team.h"
#include "kernels/positions.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// A range of positions and channels, and the number of all channels.
struct Part {
  int64_t first_position = 0;
  int64_t sequence = 0;
  int64_t first_channel = 0;
  int64_t channels = 0;
  int64_t hidden = 0;

  bool operator==(const Part&) const = default;
};

// [sequence, channels]
void compute(const Part& part, float* out) {
  for_each(part.channels, [&](int64_t j) {
    const int64_t channel = part.first_channel + j;
    const double exponent =
        static_cast<double>(channel - channel % 2) / static_cast<double>(part.hidden);
    const double frequency = std::pow(10000.0, -exponent);
    for (int64_t s = 0; s < part.sequence; ++s) {
      const double angle = static_cast<double>(part.first_position + s) * frequency;
      out[s * part.channels + j] =
          static_cast<float>(channel % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  });
}

}  // namespace

template <typename Element>
void positions_forward(Stream& stream, const Element* x, Element* y, const Region& region) {
  check_region("positions", region, 3);
  stream.enqueue([=] {
    const Part part = {.first_position = region.start[1],
                       .sequence = region.extent[1],
                       .first_channel = region.start[2],
                       .channels = region.extent[2],
                       .hidden = region.global[2]};
    const float* table =
        table_of(part, part.sequence * part.channels, [&](float* out) { compute(part, out); });
    for_each(region.extent[0] * part.sequence, [&](int64_t row) {
      const float* positions = table + row % part.sequence * part.channels;
      const Element* in = x + row * part.channels;
      Element* out = y + row * part.channels;
#pragma omp simd
      for (int64_t j = 0; j < part.channels; ++j) {
        out[j] = in[j] + positions[j];
      }
    });
  });
}

HIDUP_INSTANTIATE(positions_forward);

}  // namespace hidup::kernels
