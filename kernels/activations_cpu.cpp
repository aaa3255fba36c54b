#include "kernels/activations.h"

#include "kernels/cpu_gelu.h"
#include "kernels/cpu_silu.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// to[i] = value(i).
template <typename Element, typename Value>
void activate(Stream& stream, const char* name, Element* to, int64_t n, Value value) {
  check_extents(name, {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { to[i] = value(i); }); });
}

}  // namespace

template <typename Element>
void relu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  activate(stream, "relu", y, n, [=](int64_t i) {
    const float value = x[i];
    return value < 0.0F ? 0.0F : value;
  });
}

template <typename Element>
void relu_backward(Stream& stream, const Element* y, const Element* dy, Element* dx, int64_t n) {
  activate(stream, "relu_backward", dx, n, [=](int64_t i) {
    const float gradient = dy[i];  // unconditional, or the loop keeps a branch
    return y[i] > 0.0F ? gradient : 0.0F;
  });
}

template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  activate(stream, "gelu", y, n, [=](int64_t i) { return gelu(x[i]); });
}

template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  activate(stream, "gelu_backward", dx, n,
           [=](int64_t i) { return dy[i] * gelu_derivative(x[i]); });
}

template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  activate(stream, "silu", y, n, [=](int64_t i) { return silu(x[i]); });
}

template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  activate(stream, "silu_backward", dx, n, [=](int64_t i) { return dy[i] * silu_slope(x[i]); });
}

HIDUP_INSTANTIATE(relu_forward);
HIDUP_INSTANTIATE(relu_backward);
HIDUP_INSTANTIATE(gelu_forward);
HIDUP_INSTANTIATE(gelu_backward);
HIDUP_INSTANTIATE(silu_forward);
HIDUP_INSTANTIATE(silu_backward);

}  // namespace hidup::kernels
