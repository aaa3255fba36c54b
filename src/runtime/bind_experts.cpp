// Launches of the operations of a Mixture-of-Experts layer.
#include "kernels/dispatch.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/route.h"
#include "kernels/router_bias.h"
#include "kernels/router_losses.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

kernels::RouteSize route_size(const Operands& at) {
  const auto& attributes = at.attributes<RouteAttributes>();
  const Shape logits = at.in_shape(0);
  return {logits[0], logits[1], logits[2], attributes.choices, attributes.capacity};
}

template <typename Element>
Launch route(const Operands& at) {
  return [x = at.in_as<Element>(0), routing = at.out_integers(0), size = route_size(at)](
             Stream& stream) { kernels::route_forward(stream, x, routing, size); };
}

template <typename Element>
Launch route_biased(const Operands& at) {
  return [x = at.in_as<Element>(0), bias = at.in(1), routing = at.out_integers(0),
          size = route_size(at), sigmoid = at.attributes<RouteAttributes>().sigmoid](
             Stream& stream) { kernels::route_biased(stream, x, bias, routing, size, sigmoid); };
}

Launch route_chosen(const Operands& at) {
  return [chosen = at.in_integers(1), routing = at.out_integers(0), size = route_size(at)](
             Stream& stream) { kernels::route_chosen(stream, chosen, routing, size); };
}

Launch move_router_bias(const Operands& at) {
  const Region part = at.out_region(0);
  const kernels::RouterBias args{
      .bias = at.out(0),
      .load = at.in(1),
      .first = part.start[0],
      .n = part.extent[0],
      .experts = at.in_shape(1)[1],
      .speed = static_cast<float>(at.attributes<RouterBiasAttributes>().speed),
      .gradient_scale = at.in(2)};
  return [args](Stream& stream) { kernels::move_router_bias(stream, args); };
}

kernels::GateSize gate_size(const Operands& at) {
  const Shape logits = at.in_shape(0);
  const auto& attributes = at.attributes<GateAttributes>();
  return {logits[0] * logits[1],
          logits[2],
          at.in_shape(1)[2],
          attributes.capacity,
          attributes.normalize,
          attributes.sigmoid,
          static_cast<float>(attributes.scale)};
}

template <typename Element>
Launch gate(const Operands& at) {
  return [x = at.in_as<Element>(0), routing = at.in_integers(1), weights = at.out(0),
          size = gate_size(at)](Stream& stream) {
    kernels::gate_forward(stream, x, routing, weights, size);
  };
}

template <typename Element>
Launch gate_backward(const Operands& at) {
  return [x = at.in_as<Element>(0), routing = at.in_integers(1), dweights = at.in(2),
          dlogits = at.out_as<Element>(0), size = gate_size(at)](Stream& stream) {
    kernels::gate_backward(stream, x, routing, dweights, dlogits, size);
  };
}

Launch expert_load(const Operands& at) {
  return [routing = at.in_integers(0), load = at.out(0), n = elements(at.in_shape(0)),
          experts = at.out_shape(0)[1], capacity = at.attributes<ExpertLoadAttributes>().capacity](
             Stream& stream) { kernels::expert_load(stream, routing, load, n, experts, capacity); };
}

template <typename Element>
Launch router_sums(const Operands& at) {
  const Shape logits = at.in_shape(0);
  const auto& attributes = at.attributes<RouterSumsAttributes>();
  const kernels::RouterSums<Element> args{.logits = at.in_as<Element>(0),
                                          .routing = at.in_integers(1),
                                          .sums = at.out(0),
                                          .tokens = logits[0] * logits[1],
                                          .experts = logits[2],
                                          .choices = at.in_shape(1)[2],
                                          .counted = attributes.counted,
                                          .capacity = attributes.capacity};
  return [args](Stream& stream) { kernels::router_sums(stream, args); };
}

template <typename Element>
Launch router_losses_backward(const Operands& at) {
  const Shape logits = at.in_shape(0);
  const auto& losses = at.attributes<RouterLossAttributes>();
  const kernels::RouterLossesBackward<Element> args{
      .logits = at.in_as<Element>(0),
      .sums = at.in(1),
      .dlogits = at.out_as<Element>(0),
      .tokens = logits[0] * logits[1],
      .experts = logits[2],
      .all_tokens = losses.tokens,
      .counted = losses.counted,
      .balance = static_cast<float>(losses.balance * losses.factor),
      .z = static_cast<float>(losses.z),
      .accumulate = at.accumulate(),
      .state = at.binding().state};
  return [args](Stream& stream) { kernels::router_losses_backward(stream, args); };
}

Launch expert_counts(const Operands& at) {
  const Shape routing = at.in_shape(0);
  const Region counts = at.out_region(0);
  const kernels::ExpertCounts args{.routing = at.in_integers(0),
                                   .counts = at.out_integers(0),
                                   .batch = counts.extent[1],
                                   .entries = routing[1] * routing[2],
                                   .capacity = at.attributes<ExpertAttributes>().capacity,
                                   .first_expert = counts.start[0],
                                   .experts = counts.extent[0]};
  return [args](Stream& stream) { kernels::expert_counts(stream, args); };
}

Launch round_counts(const Operands& at) {
  const auto& [first, rows] = at.attributes<RoundAttributes>();
  const kernels::RoundCounts args{.all = at.in_integers(0),
                                  .counts = at.out_integers(0),
                                  .count = elements(at.out_shape(0)),
                                  .first = first,
                                  .rows = rows};
  return [args](Stream& stream) { kernels::round_counts(stream, args); };
}

// Returns the sizes of this rank's parts of the buffer and of the tokens.
kernels::DispatchSize dispatch_size(const Region& buffer, const Shape& routing) {
  return {.batch = buffer.extent[1],
          .sequence = routing[1],
          .choices = routing[2],
          .experts = buffer.extent[0],
          .first_expert = buffer.start[0],
          .capacity = buffer.extent[2],
          .width = buffer.extent[3]};
}

template <typename Element>
Launch dispatch(const Operands& at) {
  return [x = at.in_as<Element>(0), routing = at.in_integers(1), buffer = at.out_as<Element>(0),
          size = dispatch_size(at.out_region(0), at.in_shape(1))](Stream& stream) {
    kernels::dispatch_forward(stream, x, routing, buffer, size);
  };
}

template <typename Element>
Launch dispatch_backward(const Operands& at) {
  return [routing = at.in_integers(0), dbuffer = at.in_as<Element>(1), dx = at.out_as<Element>(0),
          size = dispatch_size(at.in_region(1), at.in_shape(0))](Stream& stream) {
    kernels::dispatch_backward(stream, dbuffer, routing, dx, size);
  };
}

template <typename Element>
Launch combine(const Operands& at) {
  return [buffer = at.in_as<Element>(0), routing = at.in_integers(1), weights = at.in(2),
          y = at.out_as<Element>(0),
          size = dispatch_size(at.in_region(0), at.in_shape(1))](Stream& stream) {
    kernels::combine_forward(stream, buffer, routing, weights, y, size);
  };
}

template <typename Element>
Launch combine_backward(const Operands& at) {
  const kernels::CombineBackward<Element> args{
      .buffer = at.in_as<Element>(0),
      .routing = at.in_integers(1),
      .weights = at.in(2),
      .dy = at.in_as<Element>(3),
      .dbuffer = at.out_as<Element>(0),
      .dweights = at.out(1),
      .size = dispatch_size(at.in_region(0), at.in_shape(1))};
  return [args](Stream& stream) { kernels::combine_backward(stream, args); };
}

// Returns the sizes of this rank's part of packed rows, and of its tokens with these choices.
kernels::DispatchSize packed_size(const Operands& at, ValueId rows, const Shape& routing,
                                  const int32_t* counts) {
  const Value& value = at.binding().program.value(rows);
  const Region box = at.region(rows, at.binding().rank);
  const auto& attributes = at.attributes<PackAttributes>();
  return {.batch = box.extent[1],
          .sequence = routing[1],
          .choices = routing[2],
          .experts = box.extent[0],
          .first_expert = box.start[0],
          .capacity = attributes.capacity,
          .width = box.extent[3],
          .counts = counts,
          .rows = Program::most_rows(value, box),
          .first_slot = attributes.round.first,
          .slots = value.packed->most};
}

template <typename Element>
Launch expert_pack(const Operands& at) {
  return [x = at.in_as<Element>(0), routing = at.in_integers(1), rows = at.out_as<Element>(0),
          size = packed_size(at, at.instruction().outputs[0], at.in_shape(1), at.in_integers(2))](
             Stream& stream) { kernels::dispatch_forward(stream, x, routing, rows, size); };
}

template <typename Element>
Launch expert_pack_backward(const Operands& at) {
  return [routing = at.in_integers(0), drows = at.in_as<Element>(2), dx = at.out_as<Element>(0),
          size = packed_size(at, at.instruction().inputs[2], at.in_shape(0), at.in_integers(1))](
             Stream& stream) { kernels::dispatch_backward(stream, drows, routing, dx, size); };
}

template <typename Element>
Launch expert_unpack(const Operands& at) {
  return [rows = at.in_as<Element>(0), routing = at.in_integers(1), weights = at.in(2),
          y = at.out_as<Element>(0),
          size = packed_size(at, at.instruction().inputs[0], at.in_shape(1), at.in_integers(3))](
             Stream& stream) { kernels::combine_forward(stream, rows, routing, weights, y, size); };
}

template <typename Element>
Launch expert_unpack_backward(const Operands& at) {
  const kernels::CombineBackward<Element> args{
      .buffer = at.in_as<Element>(0),
      .routing = at.in_integers(1),
      .weights = at.in(2),
      .dy = at.in_as<Element>(4),
      .dbuffer = at.out_as<Element>(0),
      .dweights = at.out(1),
      .size = packed_size(at, at.instruction().inputs[0], at.in_shape(1), at.in_integers(3))};
  return [args](Stream& stream) { kernels::combine_backward(stream, args); };
}

// Returns the sizes of this rank's part of a buffer, or of packed rows, and the widths of a
// product.
kernels::ExpertSize expert_size(const Operands& at, ValueId buffer, int64_t k, int64_t n) {
  const Value& value = at.binding().program.value(buffer);
  const Region box = at.region(buffer, at.binding().rank);
  return {.experts = box.extent[0],
          .batch = box.extent[1],
          .capacity = box.extent[2],
          .k = k,
          .n = n,
          .packed = value.packed.has_value(),
          .rows = value.packed ? Program::most_rows(value, box) : 0};
}
kernels::ExpertSize expert_size(const Operands& at, int64_t k, int64_t n) {
  return expert_size(at, at.instruction().inputs[0], k, n);
}

template <typename Element>
Launch expert_matmul(const Operands& at) {
  const Shape w_shape = at.in_shape(1);
  return [x = at.in_as<Element>(0), weight = at.in_as<Element>(1), counts = at.in_integers(2),
          y = at.out_as<Element>(0), size = expert_size(at, w_shape[1], w_shape[2])](
             Stream& stream) { kernels::expert_matmul(stream, x, weight, counts, y, size); };
}

template <typename Element>
Launch expert_matmul_backward_input(const Operands& at) {
  const Shape w_shape = at.in_shape(1);
  return
      [dy = at.in_as<Element>(0), weight = at.in_as<Element>(1), counts = at.in_integers(2),
       dx = at.out_as<Element>(0), size = expert_size(at, w_shape[1], w_shape[2])](Stream& stream) {
        kernels::expert_matmul_backward_input(stream, dy, weight, counts, dx, size);
      };
}

template <typename Element>
Launch expert_matmul_backward_weight(const Operands& at) {
  const Shape dw_shape = at.out_shape(0);
  const kernels::ExpertMatmulBackwardWeight<Element> args{
      .x = at.in_as<Element>(0),
      .dy = at.in_as<Element>(1),
      .counts = at.in_integers(2),
      .dw = at.out(0),
      .size = expert_size(at, dw_shape[1], dw_shape[2]),
      .accumulate = at.accumulate()};
  return [args](Stream& stream) { kernels::expert_matmul_backward_weight(stream, args); };
}

template <typename Element>
Launch expert_bias(const Operands& at) {
  return [x = at.in_as<Element>(0), bias = at.in_as<Element>(1), counts = at.in_integers(2),
          y = at.out_as<Element>(0), size = expert_size(at, 0, at.in_shape(1)[1])](Stream& stream) {
    kernels::expert_bias(stream, x, bias, counts, y, size);
  };
}

template <typename Element>
Launch expert_bias_backward(const Operands& at) {
  return [dy = at.in_as<Element>(0), counts = at.in_integers(1), dbias = at.out(0),
          size = expert_size(at, 0, at.out_shape(0)[1]),
          accumulate = at.accumulate()](Stream& stream) {
    kernels::expert_bias_backward(stream, dy, counts, dbias, size, accumulate);
  };
}

}  // namespace

template <typename T>
std::vector<LaunchRow> expert_launches() {
  return {
      {Opcode::route, route<T>},
      {Opcode::route_biased, route_biased<T>},
      {Opcode::route_chosen, route_chosen},
      {Opcode::move_router_bias, move_router_bias},
      {Opcode::expert_load, expert_load},
      {Opcode::router_sums, router_sums<T>},
      {Opcode::router_losses_backward, router_losses_backward<T>},
      {Opcode::gate, gate<T>},
      {Opcode::gate_backward, gate_backward<T>},
      {Opcode::expert_counts, expert_counts},
      {Opcode::round_counts, round_counts},
      {Opcode::dispatch, dispatch<T>},
      {Opcode::dispatch_backward, dispatch_backward<T>},
      {Opcode::expert_matmul, expert_matmul<T>},
      {Opcode::expert_matmul_backward_input, expert_matmul_backward_input<T>},
      {Opcode::expert_matmul_backward_weight, expert_matmul_backward_weight<T>},
      {Opcode::expert_bias, expert_bias<T>},
      {Opcode::expert_bias_backward, expert_bias_backward<T>},
      {Opcode::combine, combine<T>},
      {Opcode::combine_backward, combine_backward<T>},
      {Opcode::expert_pack, expert_pack<T>},
      {Opcode::expert_pack_backward, expert_pack_backward<T>},
      {Opcode::expert_unpack, expert_unpack<T>},
      {Opcode::expert_unpack_backward, expert_unpack_backward<T>},
  };
}
template std::vector<LaunchRow> expert_launches<float>();
template std::vector<LaunchRow> expert_launches<BFloat16>();
template std::vector<LaunchRow> expert_launches<Float16>();

}  // namespace hidup
