#include "kernels/cuda_elementwise.h"
#include "kernels/preconditions.h"
#include "kernels/silu_math.h"
#include "kernels/swiglu.h"

namespace hidup::kernels {
namespace {

struct Swiglu {
  __device__ float operator()(float gate, float up) const {
    const float at = not_below_silu(gate);
    return silu_value(at, expf(-at)) * up;
  }
};

template <typename Element>
__global__ void __launch_bounds__(kThreads) swiglu_backward_kernel(SwigluBackward<Element> args) {
  for (int64_t i = thread_of_grid(); i < args.n; i += threads_of_grid()) {
    const float gate = widen(args.gate[i]);
    const float up = widen(args.up[i]);
    const float dy = widen(args.dy[i]);
    const float at = not_below_silu(gate);
    const float within = within_silu(gate);
    args.dup[i] = narrow<Element>(dy * silu_value(at, expf(-at)));
    args.dgate[i] = narrow<Element>(dy * up * silu_slope(within, expf(-within)));
  }
}

}  // namespace

template <typename Element>
void swiglu_forward(Stream& stream, const Element* gate, const Element* up, Element* y, int64_t n) {
  check_extents("swiglu", {n});
  map_elements(stream, Swiglu{}, gate, up, y, n);
}

template <typename Element>
void swiglu_backward(Stream& stream, const SwigluBackward<Element>& args) {
  check_extents("swiglu_backward", {args.n});
  launch(stream, swiglu_backward_kernel<Element>, blocks_for(args.n, kThreads), kThreads, args);
}

HIDUP_INSTANTIATE(swiglu_forward);
HIDUP_INSTANTIATE(swiglu_backward);

}  // namespace hidup::kernels
