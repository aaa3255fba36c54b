#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"
#include "kernels/rotary.h"

namespace hidup::kernels {
namespace {

// A thread rotates one pair of channels at one position, for all samples and heads. The angle is in
// double, because positions may be large.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    turn_kernel(const Element* x, Element* y, RotarySize size, float sign) {
  const int64_t pairs = size.head / 2;
  for (int64_t i = thread_of_grid(); i < size.sequence * pairs; i += threads_of_grid()) {
    const int64_t s = i / pairs;
    const int64_t j = i % pairs;
    const double angle = static_cast<double>(size.first + s) *
                         pow(size.theta, -static_cast<double>(j) / static_cast<double>(pairs));
    const auto cosine = static_cast<float>(cos(angle));
    const float sine = sign * static_cast<float>(sin(angle));
    for (int64_t part = 0; part < size.batch * size.heads; ++part) {
      const int64_t row = (part / size.heads * size.sequence + s) * size.heads + part % size.heads;
      const int64_t at = row * size.head + j;
      const float a = widen(x[at]);
      const float b = widen(x[at + pairs]);
      y[at] = narrow<Element>(a * cosine - b * sine);
      y[at + pairs] = narrow<Element>(b * cosine + a * sine);
    }
  }
}

template <typename Element>
void turn(Stream& stream, const Element* x, Element* y, const RotarySize& size, float sign) {
  check_size(size);
  launch(stream, turn_kernel<Element>, blocks_for(size.sequence * (size.head / 2), kThreads),
         kThreads, x, y, size, sign);
}

}  // namespace

template <typename Element>
void rotary_forward(Stream& stream, const Element* x, Element* y, const RotarySize& size) {
  turn(stream, x, y, size, 1.0F);
}

template <typename Element>
void rotary_backward(Stream& stream, const Element* dy, Element* dx, const RotarySize& size) {
  turn(stream, dy, dx, size, -1.0F);
}

HIDUP_INSTANTIATE(rotary_forward);
HIDUP_INSTANTIATE(rotary_backward);

}  // namespace hidup::kernels
