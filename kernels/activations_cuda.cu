#include "kernels/activations.h"

#include "kernels/cuda_elementwise.h"
#include "kernels/gelu_math.h"
#include "kernels/preconditions.h"
#include "kernels/silu_math.h"

namespace hidup::kernels {
namespace {

struct Relu {
  __device__ float operator()(float x, float) const { return x < 0.0F ? 0.0F : x; }
};
struct ReluGradient {
  __device__ float operator()(float y, float dy) const { return y > 0.0F ? dy : 0.0F; }
};

struct Gelu {
  __device__ float operator()(float x, float) const {
    const float at = not_below(x);
    return at / (1.0F + expf(gelu_exponent(not_above(at))));
  }
};
struct GeluGradient {
  __device__ float operator()(float x, float dy) const {
    const float at = not_above(not_below(x));
    return dy * gelu_slope(at, expf(gelu_exponent(at)));
  }
};

struct Silu {
  __device__ float operator()(float x, float) const {
    const float at = not_below_silu(x);
    return silu_value(at, expf(-at));
  }
};
struct SiluGradient {
  __device__ float operator()(float x, float dy) const {
    const float at = within_silu(x);
    return dy * silu_slope(at, expf(-at));
  }
};

template <typename Function, typename Element>
void activate(Stream& stream, const char* name, const Element* a, const Element* b, Element* to,
              int64_t n) {
  check_extents(name, {n});
  map_elements(stream, Function{}, a, b, to, n);
}

}  // namespace

template <typename Element>
void relu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  activate<Relu>(stream, "relu", x, x, y, n);
}

template <typename Element>
void relu_backward(Stream& stream, const Element* y, const Element* dy, Element* dx, int64_t n) {
  activate<ReluGradient>(stream, "relu_backward", y, dy, dx, n);
}

template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  activate<Gelu>(stream, "gelu", x, x, y, n);
}

template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  activate<GeluGradient>(stream, "gelu_backward", x, dy, dx, n);
}

template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  activate<Silu>(stream, "silu", x, x, y, n);
}

template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  activate<SiluGradient>(stream, "silu_backward", x, dy, dx, n);
}

HIDUP_INSTANTIATE(relu_forward);
HIDUP_INSTANTIATE(relu_backward);
HIDUP_INSTANTIATE(gelu_forward);
HIDUP_INSTANTIATE(gelu_backward);
HIDUP_INSTANTIATE(silu_forward);
HIDUP_INSTANTIATE(silu_backward);

}  // namespace hidup::kernels
