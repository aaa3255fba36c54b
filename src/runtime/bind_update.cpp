#include <vector>

#include "kernels/adam.h"
#include "kernels/norm.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

Launch bind_squared_norm(const Operands& at) {
  const Span gradients = span_of(at, at.instruction().inputs);
  const auto* data = reinterpret_cast<const float*>(gradients.data);
  return [=, sum = at.out(0), accumulate = at.instruction().accumulate](Stream& stream) {
    kernels::squared_norm(stream, data, gradients.count, sum, accumulate);
  };
}

Launch bind_clip_scale(const Operands& at) {
  const float max_norm = at.attribute("max_norm");
  return [=, squared = at.in(0), norm = at.out(0), scale = at.out(1),
          state = at.binding().state](Stream& stream) {
    kernels::clip_scale(stream, squared, max_norm, norm, scale, state);
  };
}

Launch bind_adam(const Operands& at) {
  const size_t count = at.instruction().inputs.size() / 4;
  std::vector<kernels::AdamPart> parts;
  for (size_t p = 0; p < count; ++p) {
    parts.push_back({.parameter = at.in(4 * p),
                     .gradient = at.in(4 * p + 1),
                     .m = at.in(4 * p + 2),
                     .v = at.in(4 * p + 3),
                     .n = elements(at.in_shape(4 * p)),
                     .decays = at.binding().program.value(at.instruction().inputs[4 * p]).decay});
  }
  const kernels::AdamOptions options{.beta1 = at.attribute("beta1"),
                                     .beta2 = at.attribute("beta2"),
                                     .epsilon = at.attribute("epsilon"),
                                     .weight_decay = at.attribute("weight_decay"),
                                     .decoupled = at.attribute("decoupled") != 0.0F,
                                     .skips = at.flag("skips")};
  return [parts, options, scale = at.in(4 * count), state = at.binding().state](Stream& stream) {
    kernels::adam_update(stream, parts, options, state, scale);
  };
}

}  // namespace

Launch bind_update(const Operands& at) {
  switch (at.instruction().opcode) {
    case Opcode::squared_norm:
      return bind_squared_norm(at);
    case Opcode::clip_scale:
      return bind_clip_scale(at);
    default:
      return bind_adam(at);
  }
}

}  // namespace hidup
