#include "kernels/swiglu.h"

#include "kernels/cpu_silu.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void swiglu_forward(Stream& stream, const Element* gate, const Element* up, Element* y, int64_t n) {
  check_extents("swiglu", {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { y[i] = silu(gate[i]) * up[i]; }); });
}

template <typename Element>
void swiglu_backward(Stream& stream, const SwigluBackward<Element>& args) {
  check_extents("swiglu_backward", {args.n});
  stream.enqueue([=] {
    for_each_element(args.n, [=](int64_t i) {
      const float gate = args.gate[i];
      const float dy = args.dy[i];
      args.dup[i] = dy * silu(gate);
      args.dgate[i] = dy * args.up[i] * silu_slope(gate);
    });
  });
}

HIDUP_INSTANTIATE(swiglu_forward);
HIDUP_INSTANTIATE(swiglu_backward);

}  // namespace hidup::kernels
