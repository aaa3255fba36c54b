// The operations of a Mixture-of-Experts layer.
#include "core/random.h"
#include "kernels/dispatch.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/route.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

template <typename Element>
Launch bind_route(const Operands& at) {
  const Region logits = at.in_region(0);
  const kernels::RouteSize size{logits.extent[0], logits.extent[1], logits.extent[2],
                                at.integer("choices"), at.integer("capacity")};
  int32_t* routing = at.out_integers(0);
  if (at.attribute("hash") != 0.0F) {
    Region tokens = logits;
    tokens.dims = 2;
    const uint64_t key = random_stream(at.binding().seed, at.instruction().purpose).key;
    return [=](Stream& stream) { kernels::route_hash(stream, routing, tokens, size, key); };
  }
  return [=, x = at.in_as<Element>(0)](Stream& stream) {
    kernels::route_forward(stream, x, routing, size);
  };
}

template <typename Element>
Launch bind_gate(const Operands& at) {
  const Shape logits = at.in_shape(0);
  const kernels::GateSize size{logits[0] * logits[1], logits[2], at.in_shape(1)[2],
                               at.integer("capacity")};
  const Element* x = at.in_as<Element>(0);
  const int32_t* routing = at.in_integers(1);
  if (at.instruction().opcode == Opcode::gate) {
    return [=, weights = at.out(0)](Stream& stream) {
      kernels::gate_forward(stream, x, routing, weights, size);
    };
  }
  return [=, dweights = at.in(2), dlogits = at.out_as<Element>(0)](Stream& stream) {
    kernels::gate_backward(stream, x, routing, dweights, dlogits, size);
  };
}

Launch bind_counts(const Operands& at) {
  const Shape routing_shape = at.in_shape(0);
  const int32_t* routing = at.in_integers(0);
  const int64_t capacity = at.integer("capacity");
  if (at.instruction().opcode == Opcode::expert_load) {
    const int64_t experts = at.out_shape(0)[1];
    return [=, load = at.out(0), n = elements(routing_shape)](Stream& stream) {
      kernels::expert_load(stream, routing, load, n, experts, capacity);
    };
  }
  const Region counts = at.out_region(0);
  return
      [=, out = at.out_integers(0), entries = routing_shape[1] * routing_shape[2]](Stream& stream) {
        kernels::expert_counts(stream, {.routing = routing,
                                        .counts = out,
                                        .batch = counts.extent[0],
                                        .entries = entries,
                                        .capacity = capacity,
                                        .first_expert = counts.start[1],
                                        .experts = counts.extent[1]});
      };
}

// The parts of the buffer and of the tokens that this rank works on.
kernels::DispatchSize dispatch_size(const Region& buffer, const Shape& routing) {
  return {.batch = buffer.extent[0],
          .sequence = routing[1],
          .choices = routing[2],
          .experts = buffer.extent[1],
          .first_expert = buffer.start[1],
          .capacity = buffer.extent[2],
          .width = buffer.extent[3]};
}

template <typename Element>
Launch bind_dispatch(const Operands& at) {
  Element* out = at.out_as<Element>(0);
  if (at.instruction().opcode == Opcode::dispatch) {
    const kernels::DispatchSize size = dispatch_size(at.out_region(0), at.in_shape(1));
    return [=, x = at.in_as<Element>(0), routing = at.in_integers(1)](Stream& stream) {
      kernels::dispatch_forward(stream, x, routing, out, size);
    };
  }
  const kernels::DispatchSize size = dispatch_size(at.in_region(1), at.in_shape(0));
  return [=, routing = at.in_integers(0), dbuffer = at.in_as<Element>(1)](Stream& stream) {
    kernels::dispatch_backward(stream, dbuffer, routing, out, size);
  };
}

template <typename Element>
Launch bind_combine(const Operands& at) {
  const kernels::DispatchSize size = dispatch_size(at.in_region(0), at.in_shape(1));
  const Element* buffer = at.in_as<Element>(0);
  const int32_t* routing = at.in_integers(1);
  const float* weights = at.in(2);
  Element* out = at.out_as<Element>(0);
  if (at.instruction().opcode == Opcode::combine) {
    return [=](Stream& stream) {
      kernels::combine_forward(stream, buffer, routing, weights, out, size);
    };
  }
  return [=, dy = at.in_as<Element>(3), dweights = at.out(1)](Stream& stream) {
    kernels::combine_backward<Element>(stream, {.buffer = buffer,
                                                .routing = routing,
                                                .weights = weights,
                                                .dy = dy,
                                                .dbuffer = out,
                                                .dweights = dweights,
                                                .size = size});
  };
}

template <typename Element>
Launch bind_expert_matmul(const Operands& at) {
  const Element* a = at.in_as<Element>(0);
  const Element* b = at.in_as<Element>(1);
  const int32_t* counts = at.in_integers(2);
  Element* c = at.out_as<Element>(0);
  const Shape first = at.in_shape(0);
  if (at.instruction().opcode == Opcode::expert_matmul) {
    const kernels::ExpertSize size{first[0], first[1], first[2], first[3], at.in_shape(1)[2]};
    return [=](Stream& stream) { kernels::expert_matmul(stream, a, b, counts, c, size); };
  }
  if (at.instruction().opcode == Opcode::expert_matmul_backward_input) {
    const kernels::ExpertSize size{first[0], first[1], first[2], at.out_shape(0)[3], first[3]};
    return [=](Stream& stream) {
      kernels::expert_matmul_backward_input(stream, a, b, counts, c, size);
    };
  }
  const kernels::ExpertSize size{first[0], first[1], first[2], first[3], at.in_shape(1)[3]};
  return [=, dw = at.out(0), accumulate = at.instruction().accumulate](Stream& stream) {
    kernels::expert_matmul_backward_weight<Element>(
        stream,
        {.x = a, .dy = b, .counts = counts, .dw = dw, .size = size, .accumulate = accumulate});
  };
}

template <typename Element>
Launch bind_expert_bias(const Operands& at) {
  const Shape x_shape = at.in_shape(0);
  const kernels::ExpertSize size{x_shape[0], x_shape[1], x_shape[2], 0, x_shape[3]};
  const Element* x = at.in_as<Element>(0);
  if (at.instruction().opcode == Opcode::expert_bias) {
    return [=, b = at.in_as<Element>(1), counts = at.in_integers(2), y = at.out_as<Element>(0)](
               Stream& stream) { kernels::expert_bias(stream, x, b, counts, y, size); };
  }
  return [=, counts = at.in_integers(1), dbias = at.out(0),
          accumulate = at.instruction().accumulate](Stream& stream) {
    kernels::expert_bias_backward(stream, x, counts, dbias, size, accumulate);
  };
}

}  // namespace

template <typename Element>
Launch bind_experts(const Operands& at) {
  switch (at.instruction().opcode) {
    case Opcode::route:
      return bind_route<Element>(at);
    case Opcode::gate:
    case Opcode::gate_backward:
      return bind_gate<Element>(at);
    case Opcode::expert_counts:
    case Opcode::expert_load:
      return bind_counts(at);
    case Opcode::dispatch:
    case Opcode::dispatch_backward:
      return bind_dispatch<Element>(at);
    case Opcode::combine:
    case Opcode::combine_backward:
      return bind_combine<Element>(at);
    case Opcode::expert_bias:
    case Opcode::expert_bias_backward:
      return bind_expert_bias<Element>(at);
    default:
      return bind_expert_matmul<Element>(at);
  }
}

template Launch bind_experts<float>(const Operands& at);
template Launch bind_experts<BFloat16>(const Operands& at);
template Launch bind_experts<Float16>(const Operands& at);

}  // namespace hidup
