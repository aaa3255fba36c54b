// Helpers for similar rows of the table of opcodes; for opcodes.cpp only.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "graph/flops.h"
#include "graph/operation.h"
#include "program/opcode_table.h"

namespace hidup {

namespace rows {

using Shapes = OpcodeSpec::Shapes;
using Told = InstructionAttributes;

inline double count(const Shape& shape) {
  return static_cast<double>(elements(shape));
}

// Returns the flops of an operation's forward pass.
inline double forward(OpKind kind, const Told& told, Shapes in, const Shape& out) {
  const OpAttributes attributes = std::visit(
      [](const auto& held) -> OpAttributes {
        if constexpr (std::is_constructible_v<OpAttributes, decltype(held)>) {
          return held;
        } else {
          return NoAttributes{};
        }
      },
      told);
  return forward_flops(kind, in, out, attributes);
}
inline double forward(OpKind kind, const Told& told, std::initializer_list<Shape> in,
                      const Shape& out) {
  return forward(kind, told, Shapes(in.begin(), in.size()), out);
}

template <OpKind kKind>
double same_as(const Told& told, Shapes in, Shapes out) {
  return forward(kKind, told, in, out[0]);
}
template <OpKind kKind>
double twice(const Told& told, Shapes in, Shapes out) {
  return 2.0 * forward(kKind, told, in, out[0]);
}
inline double none(const Told&, Shapes, Shapes) {
  return 0.0;
}
template <int kFlops>
double per_input(const Told&, Shapes in, Shapes) {
  return kFlops * count(in[0]);
}
template <int kFlops>
double per_element_of(Shapes operands) {
  double total = 0.0;
  for (const Shape& shape : operands) {
    total += kFlops * count(shape);
  }
  return total;
}

using Rows = std::vector<OpcodeRow>;

// Returns the row with the operation's attributes, unless the row has its own, and its `product`.
inline OpcodeRow of_operation(OpKind kind, OpcodeRow row) {
  const OperationSpec& operation = spec_of(kind);
  if (std::holds_alternative<NoAttributes>(row.traits.attributes)) {
    row.traits.attributes = std::visit(
        [](const auto& held) -> InstructionAttributes { return held; }, operation.attributes);
  }
  row.traits.product = operation.product;
  return row;
}

template <OpKind kKind>
OpcodeRow forward_pass(Opcode opcode, std::string_view signature, std::vector<BackwardRow> backward,
                       OpcodeTraits traits = {}) {
  traits.operation = kKind;
  traits.backward = std::move(backward);
  return of_operation(kKind,
                      {opcode, spec_of(kKind).name, signature, same_as<kKind>, std::move(traits)});
}

// The part of a product y = x * weight that an opcode computes.
enum class Computes { output, input_gradient, weight_gradient };

// The operands of the product among the opcode's operands.
struct Product {
  const Shape& x;
  const Shape& weight;
  const Shape& y;
};
template <Computes kComputed>
Product product_of(Shapes in, Shapes out) {
  if constexpr (kComputed == Computes::output) {
    return {in[0], in[1], out[0]};
  } else if constexpr (kComputed == Computes::input_gradient) {
    return {out[0], in[1], in[0]};
  } else {
    return {in[0], out[0], in[1]};
  }
}

// Returns the flops of the product, plus kFlops and kGelus GELUs per element of the output's
// gradient (where the weight gradient is computed) or of the result (otherwise).
template <OpKind kKind, Computes kComputed, int kFlops, int kGelus>
double product_flops(const Told& told, Shapes in, Shapes out) {
  const Product product = product_of<kComputed>(in, out);
  const Shape& beside = kComputed == Computes::weight_gradient ? product.y : out[0];
  return forward(kKind, told, {product.x, product.weight}, product.y) + kFlops * count(beside) +
         kGelus * forward(OpKind::gelu, {}, {beside}, beside);
}

template <OpKind kKind, Computes kComputed>
Sizes sizes_of_product(const Told& told, Shapes in, Shapes out) {
  const Product product = product_of<kComputed>(in, out);
  return kKind == OpKind::expert_matmul ? expert_sizes(product.x, product.y)
                                        : product_sizes(told, product.x, product.y);
}

template <OpKind kKind, Computes kComputed, int kFlops = 0, int kGelus = 0>
OpcodeRow product(Opcode opcode, std::string_view name, std::string_view signature,
                  std::optional<Opcode> fuses = {}) {
  return of_operation(kKind, {opcode,
                              name,
                              signature,
                              product_flops<kKind, kComputed, kFlops, kGelus>,
                              {.sizes = sizes_of_product<kKind, kComputed>, .fuses = fuses}});
}

// The input gradient comes first, because it may have to be sent while the weight's is computed.
template <OpKind kKind>
OpcodeRow product_forward(Opcode opcode, std::string_view signature, const BackwardRow& input,
                          const BackwardRow& weight) {
  return forward_pass<kKind>(opcode, signature, {input, weight},
                             {.sizes = sizes_of_product<kKind, Computes::output>});
}

template <OpKind kKind>
OpcodeRow attention_forward(Opcode opcode, std::string_view signature,
                            const BackwardRow& backward) {
  return forward_pass<kKind>(
      opcode, signature, {backward},
      {.sizes = [](const Told&, Shapes, Shapes out) { return attention_sizes(out[0], out[1]); }});
}

// The backward pass has five products (recomputed scores, dV, dP, dQ, dK), the forward pass two.
template <OpKind kKind>
OpcodeRow attention_backwards(Opcode opcode, std::string_view name, std::string_view signature) {
  constexpr size_t kOutput = kKind == OpKind::attention ? 1 : 3;  // lse is the operand after it
  return of_operation(kKind, {opcode,
                              name,
                              signature,
                              [](const Told& t, Shapes in, Shapes) {
                                return 2.5 * forward(kKind, t, in, in[kOutput]);
                              },
                              {.sizes = [](const Told&, Shapes in, Shapes) {
                                return attention_sizes(in[kOutput], in[kOutput + 1]);
                              }}});
}

template <ReshardKind kKind>
OpcodeRow reshard(Opcode opcode, std::string_view name) {
  constexpr bool kSums = kKind == ReshardKind::all_reduce;
  return {opcode,
          name,
          kSums ? "(x:S)* -> (y:S=x)*" : "(x:S)* -> (y:S)*",
          none,
          {.attributes = ReshardAttributes{}, .one_piece = kSums, .reshard = kKind}};
}

}  // namespace rows
}  // namespace hidup
