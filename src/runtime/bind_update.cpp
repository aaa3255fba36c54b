// Launches of the gradient norm, the optimizer and rounding.
#include <type_traits>
#include <vector>

#include "kernels/adam.h"
#include "kernels/convert.h"
#include "kernels/norm.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

Launch squared_norm(const Operands& at) {
  const Span gradients = span_of(at, at.instruction().inputs);
  const auto* data = reinterpret_cast<const float*>(gradients.data);
  return [=, sum = at.out(0), accumulate = at.instruction().accumulate](Stream& stream) {
    kernels::squared_norm(stream, data, gradients.count, sum, accumulate);
  };
}

Launch clip_scale(const Operands& at) {
  const auto max_norm = static_cast<float>(at.attributes<ClipAttributes>().max_norm);
  return [=, squared = at.in(0), norm = at.out(0), scale = at.out(1),
          state = at.binding().state](Stream& stream) {
    kernels::clip_scale(stream, squared, max_norm, norm, scale, state);
  };
}

// `Element`: type of the parameters that adam_rounded rounds from their masters.
template <typename Element>
Launch adam(const Operands& at) {
  const bool rounds = at.instruction().opcode == Opcode::adam_rounded;
  const size_t count = at.instruction().inputs.size() / 4;
  std::vector<kernels::AdamPart<Element>> parts;
  for (size_t p = 0; p < count; ++p) {
    parts.push_back({.parameter = at.in(4 * p),
                     .gradient = at.in(4 * p + 1),
                     .m = at.in(4 * p + 2),
                     .v = at.in(4 * p + 3),
                     .n = elements(at.in_shape(4 * p)),
                     .decays = at.binding().program.value(at.instruction().inputs[4 * p]).decay,
                     .rounded = rounds ? at.out_as<Element>(4 * p + 3) : nullptr});
  }
  const auto& attributes = at.attributes<AdamAttributes>();
  const kernels::AdamOptions options{.beta1 = static_cast<float>(attributes.beta1),
                                     .beta2 = static_cast<float>(attributes.beta2),
                                     .epsilon = static_cast<float>(attributes.epsilon),
                                     .weight_decay = static_cast<float>(attributes.weight_decay),
                                     .decoupled = attributes.decoupled};
  return [parts, options, scale = at.in(4 * count), state = at.binding().state](Stream& stream) {
    kernels::adam_update<Element>(stream, parts, options, state, scale);
  };
}

template <typename From, typename To>
Launch convert_parts(const Operands& at) {
  struct Part {
    const From* from;
    To* to;
    int64_t n;
  };
  std::vector<Part> parts;
  for (size_t p = 0; p < at.instruction().inputs.size(); ++p) {
    parts.push_back({at.in_as<From>(p), at.out_as<To>(p), elements(at.in_shape(p))});
  }
  return [parts](Stream& stream) {
    for (const Part& part : parts) {
      kernels::convert(stream, part.from, part.to, part.n);
    }
  };
}

// Rounds gradients of parameters that other operations read as well; widens logits for the host.
template <typename Element>
Launch convert(const Operands& at) {
  const bool rounds = at.binding().program.value(at.instruction().inputs[0]).dtype == DType::f32;
  return rounds ? convert_parts<float, Element>(at) : convert_parts<Element, float>(at);
}

}  // namespace

template <typename T>
std::vector<LaunchRow> update_launches() {
  std::vector<LaunchRow> rows = {
      {Opcode::squared_norm, squared_norm},
      {Opcode::clip_scale, clip_scale},
      {Opcode::adam, adam<T>},
  };
  if constexpr (!std::is_same_v<T, float>) {
    rows.push_back({Opcode::adam_rounded, adam<T>});
    rows.push_back({Opcode::convert, convert<T>});
  }
  return rows;
}
template std::vector<LaunchRow> update_launches<float>();
template std::vector<LaunchRow> update_launches<BFloat16>();
template std::vector<LaunchRow> update_launches<Float16>();

}  // namespace hidup
