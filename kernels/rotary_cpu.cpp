#include "kernels/rotary.h"

#include <cmath>

#include "kernels/cpu_table.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// The parameters of the angles.
struct Angles {
  int64_t first = 0;
  int64_t sequence = 0;
  int64_t pairs = 0;
  double theta = 0.0;

  bool operator==(const Angles&) const = default;
};

// Writes [sequence, 2, pairs]: cosines and sines.
void compute(const Angles& angles, float* out) {
  for_each(angles.pairs, [&](int64_t j) {
    const double frequency =
        std::pow(angles.theta, -static_cast<double>(j) / static_cast<double>(angles.pairs));
    for (int64_t s = 0; s < angles.sequence; ++s) {
      const double angle = static_cast<double>(angles.first + s) * frequency;
      out[2 * s * angles.pairs + j] = static_cast<float>(std::cos(angle));
      out[(2 * s + 1) * angles.pairs + j] = static_cast<float>(std::sin(angle));
    }
  });
}

// Rotates by the angles times `sign`.
template <typename Element>
void turn(const Element* x, Element* y, const RotarySize& size, float sign) {
  const int64_t pairs = size.head / 2;
  const Angles angles{size.first, size.sequence, pairs, size.theta};
  const float* table = table_of(angles, angles.sequence * 2 * angles.pairs,
                                [&](float* out) { compute(angles, out); });
  for_each(size.batch * size.sequence * size.heads, [&](int64_t row) {
    const float* cosine = table + row / size.heads % size.sequence * 2 * pairs;
    const float* sine = cosine + pairs;
    const Element* in = x + row * size.head;
    Element* out = y + row * size.head;
#pragma omp simd
    for (int64_t j = 0; j < pairs; ++j) {
      const float a = in[j];
      const float b = in[j + pairs];
      out[j] = a * cosine[j] - sign * b * sine[j];
      out[j + pairs] = b * cosine[j] + sign * a * sine[j];
    }
  });
}

}  // namespace

template <typename Element>
void rotary_forward(Stream& stream, const Element* x, Element* y, const RotarySize& size) {
  check_size(size);
  stream.enqueue([=] { turn(x, y, size, 1.0F); });
}

template <typename Element>
void rotary_backward(Stream& stream, const Element* dy, Element* dx, const RotarySize& size) {
  check_size(size);
  stream.enqueue([=] { turn(dy, dx, size, -1.0F); });
}

HIDUP_INSTANTIATE(rotary_forward);
HIDUP_INSTANTIATE(rotary_backward);

}  // namespace hidup::kernels
