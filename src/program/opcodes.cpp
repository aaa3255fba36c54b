#include "graph/flops.h"
#include "program/opcode_table.h"

namespace hidup {
namespace {

using Shapes = OpcodeSpec::Shapes;
using Told = InstructionAttributes;

double count(const Shape& shape) {
  return static_cast<double>(elements(shape));
}

// The flops of an operation's forward pass.
double forward(OpKind kind, const Told& told, Shapes in, const Shape& out) {
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
double forward(OpKind kind, const Told& told, std::initializer_list<Shape> in, const Shape& out) {
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
double none(const Told&, Shapes, Shapes) {
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

template <ReshardKind kKind>
OpcodeRow reshard(Opcode opcode, std::string_view name) {
  constexpr bool kSums = kKind == ReshardKind::all_reduce;
  return {opcode,
          name,
          kSums ? "(x:S)* -> (y:S=x)*" : "(x:S)* -> (y:S)*",
          none,
          {.attributes = ReshardAttributes{}, .one_piece = kSums, .reshard = kKind}};
}

}  // namespace

const std::vector<OpcodeRow>& opcode_rows() {
  using enum Opcode;
  static const std::vector<OpcodeRow> kRows = {
      {embedding,
       "embedding",
       "tokens:i table:T -> y:T",
       same_as<OpKind::embedding>,
       {.attributes = EmbeddingAttributes{},
        .operation = OpKind::embedding,
        .backward = {{embedding_backward, "tokens dy", "table"}}}},
      {embedding_backward,
       "embedding_backward",
       "tokens:i dy:T -> dtable:f+",
       [](const Told&, Shapes in, Shapes) { return count(in[1]); },
       {.attributes = EmbeddingAttributes{}}},
      {positions,
       "positions",
       "x:T -> y:T=x",
       per_input<1>,
       {.operation = OpKind::positions, .backward = {{{}, "dy", "x"}}}},
      {rotary,
       "rotary",
       "x:T -> y:T=x",
       same_as<OpKind::rotary>,
       {.attributes = RotaryAttributes{},
        .operation = OpKind::rotary,
        .backward = {{rotary_backward, "dy", "x"}}}},
      {rotary_backward,
       "rotary_backward",
       "dy:T -> dx:T=dy",
       same_as<OpKind::rotary>,
       {.attributes = RotaryAttributes{}}},
      {prepend,
       "prepend",
       "x:T token:T -> y:T",
       none,
       {.operation = OpKind::prepend, .backward = {{prepend_backward, "dy", "x token"}}}},
      {prepend_backward, "prepend_backward", "dy:T -> dx:T dtoken:f+",
       [](const Told&, Shapes in, Shapes) {  // the sum over the batch
         return static_cast<double>(in[0][0] * in[0][2]);
       }},
      {first,
       "first",
       "x:T -> y:T",
       none,
       {.operation = OpKind::first, .backward = {{first_backward, "dy", "x"}}}},
      {first_backward, "first_backward", "dy:T -> dx:T", none},
      // The input's gradient first: it may have to be sent while the weight's is computed.
      {matmul,
       "matmul",
       "x:T weight:T -> y:T~",
       same_as<OpKind::matmul>,
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in,
                    Shapes out) { return product_sizes(t, in[0], out[0]); },
        .product = true,
        .operation = OpKind::matmul,
        .backward = {{matmul_backward_input, "dy weight", "x"},
                     {matmul_backward_weight, "x dy", "weight"}}}},
      {matmul_bias,
       "matmul_bias",
       "x:T weight:T bias:T -> y:T~",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, in, out[0]) + count(out[0]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in,
                    Shapes out) { return product_sizes(t, in[0], out[0]); },
        .product = true,
        .fuses = matmul}},
      {matmul_bias_relu,
       "matmul_bias_relu",
       "x:T weight:T bias:T -> y:T",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, in, out[0]) + 2.0 * count(out[0]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in,
                    Shapes out) { return product_sizes(t, in[0], out[0]); },
        .product = true,
        .fuses = matmul}},
      {matmul_bias_gelu,
       "matmul_bias_gelu",
       "x:T weight:T bias:T -> y:T before_gelu:T",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, in, out[0]) + count(out[0]) +
                forward(OpKind::gelu, {}, {out[1]}, out[0]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in,
                    Shapes out) { return product_sizes(t, in[0], out[0]); },
        .product = true,
        .fuses = matmul}},
      {matmul_backward_input,
       "matmul_backward_input",
       "dy:T~ weight:T -> dx:T+",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, {out[0], in[1]}, in[0]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in,
                    Shapes out) { return product_sizes(t, out[0], in[0]); },
        .product = true}},
      {matmul_backward_input_gelu,
       "matmul_backward_input_gelu",
       "dy:T~ weight:T x:T -> dx:T",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, {out[0], in[1]}, in[0]) +
                2.0 * forward(OpKind::gelu, {}, {in[2]}, out[0]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in,
                    Shapes out) { return product_sizes(t, out[0], in[0]); },
        .product = true,
        .fuses = matmul_backward_input}},
      {matmul_backward_weight,
       "matmul_backward_weight",
       "x:T dy:T~ -> dweight:f+",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, {in[0], out[0]}, in[1]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in, Shapes) { return product_sizes(t, in[0], in[1]); },
        .product = true}},
      {matmul_backward_weight_bias,
       "matmul_backward_weight_bias",
       "x:T dy:T~ -> dweight:f+ dbias:f+",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::matmul, t, {in[0], out[0]}, in[1]) + count(in[1]);
       },
       {.attributes = MatmulAttributes{},
        .sizes = [](const Told& t, Shapes in, Shapes) { return product_sizes(t, in[0], in[1]); },
        .product = true,
        .fuses = matmul_backward_weight}},
      {bias,
       "bias",
       "x:T~ bias:T -> y:T~=x",
       per_input<1>,
       {.operation = OpKind::bias, .backward = {{bias_backward, "dy", "bias"}, {{}, "dy", "x"}}}},
      {bias_backward, "bias_backward", "dy:T~ -> dbias:f+", per_input<1>},
      {relu,
       "relu",
       "x:T -> y:T=x",
       per_input<1>,
       {.operation = OpKind::relu, .backward = {{relu_backward, "y dy", "x"}}}},
      {relu_backward, "relu_backward", "y:T dy:T -> dx:T=dy", per_input<1>},
      {gelu,
       "gelu",
       "x:T -> y:T",
       same_as<OpKind::gelu>,
       {.operation = OpKind::gelu, .backward = {{gelu_backward, "x dy", "x"}}}},
      {gelu_backward, "gelu_backward", "x:T dy:T -> dx:T=dy", twice<OpKind::gelu>},
      {silu,
       "silu",
       "x:T -> y:T",
       same_as<OpKind::silu>,
       {.operation = OpKind::silu, .backward = {{silu_backward, "x dy", "x"}}}},
      {silu_backward, "silu_backward", "x:T dy:T -> dx:T=dy", twice<OpKind::silu>},
      {swiglu,
       "swiglu",
       "gate:T up:T -> y:T",
       same_as<OpKind::swiglu>,
       {.operation = OpKind::swiglu, .backward = {{swiglu_backward, "gate up dy", "gate up"}}}},
      {swiglu_backward, "swiglu_backward", "gate:T up:T dy:T -> dgate:T=dy dup:T",
       twice<OpKind::swiglu>},
      // the backward pass has the same mask
      {dropout,
       "dropout",
       "x:T -> y:T=x",
       per_input<2>,
       {.attributes = DropoutAttributes{},
        .random = true,
        .operation = OpKind::dropout,
        .backward = {{dropout, "dy", "x"}}}},
      {add,
       "add",
       "a:T b:T -> y:T=a,b",
       per_input<1>,
       {.operation = OpKind::add, .backward = {{{}, "dy", "a"}, {{}, "dy", "b"}}}},
      {layer_norm,
       "layer_norm",
       "x:T weight:T bias:T -> y:T mean:f rstd:f",
       same_as<OpKind::layer_norm>,
       {.attributes = LayerNormAttributes{},
        .operation = OpKind::layer_norm,
        .backward = {{layer_norm_backward, "x weight mean rstd dy", "x weight bias"}}}},
      {residual_norm,
       "residual_norm",
       "branch:T residual:T weight:T bias:T -> y:T sum:T=branch mean:f rstd:f",
       [](const Told&, Shapes in, Shapes out) {  // dropout and the sum: three more per element
         return forward(OpKind::layer_norm, {}, {in[0], in[2], in[3]}, out[0]) + 3.0 * count(in[0]);
       },
       {.attributes = ResidualNormAttributes{}, .fuses = layer_norm}},
      {layer_norm_backward, "layer_norm_backward",
       "x:T weight:T mean:f rstd:f dy:T -> dx:T dweight:f+ dbias:f+", twice<OpKind::layer_norm>},
      {layer_norm_backward_add,
       "layer_norm_backward_add",
       "x:T weight:T mean:f rstd:f dy:T added:T -> dx:T dweight:f+ dbias:f+",
       [](const Told& t, Shapes in, Shapes out) {
         return twice<OpKind::layer_norm>(t, in, out) + count(in[0]);
       },
       {.fuses = layer_norm_backward}},
      {rms_norm,
       "rms_norm",
       "x:T weight:T -> y:T rstd:f",
       same_as<OpKind::rms_norm>,
       {.attributes = LayerNormAttributes{},
        .operation = OpKind::rms_norm,
        .backward = {{rms_norm_backward, "x weight rstd dy", "x weight"}}}},
      {residual_rms_norm,
       "residual_rms_norm",
       "branch:T residual:T weight:T -> y:T sum:T=branch rstd:f",
       [](const Told&, Shapes in, Shapes out) {  // as residual_norm
         return forward(OpKind::rms_norm, {}, {in[0], in[2]}, out[0]) + 3.0 * count(in[0]);
       },
       {.attributes = ResidualNormAttributes{}, .fuses = rms_norm}},
      {rms_norm_backward, "rms_norm_backward", "x:T weight:T rstd:f dy:T -> dx:T dweight:f+",
       twice<OpKind::rms_norm>},
      {rms_norm_backward_add,
       "rms_norm_backward_add",
       "x:T weight:T rstd:f dy:T added:T -> dx:T dweight:f+",
       [](const Told& t, Shapes in, Shapes out) {
         return twice<OpKind::rms_norm>(t, in, out) + count(in[0]);
       },
       {.fuses = rms_norm_backward}},
      {attention,
       "attention",
       "qkv:T -> y:T lse:f",
       same_as<OpKind::attention>,
       {.attributes = AttentionAttributes{},
        .sizes = [](const Told&, Shapes, Shapes out) { return attention_sizes(out[0], out[1]); },
        .product = true,
        .operation = OpKind::attention,
        .backward = {{attention_backward, "qkv y lse dy", "qkv"}}}},
      {attention_backward,
       "attention_backward",
       "qkv:T y:T lse:f dy:T -> dqkv:T",
       [](const Told& t, Shapes in, Shapes) {
         // Five products (scores again, dV, dP, dQ, dK) where the forward pass has two.
         return 2.5 * forward(OpKind::attention, t, in, in[1]);
       },
       {.attributes = AttentionAttributes{},
        .sizes = [](const Told&, Shapes in, Shapes) { return attention_sizes(in[1], in[2]); },
        .product = true}},
      {grouped_attention,
       "grouped_attention",
       "q:T k:T v:T -> y:T lse:f",
       same_as<OpKind::grouped_attention>,
       {.attributes = AttentionAttributes{},
        .sizes = [](const Told&, Shapes, Shapes out) { return attention_sizes(out[0], out[1]); },
        .product = true,
        .operation = OpKind::grouped_attention,
        .backward = {{grouped_attention_backward, "q k v y lse dy", "q k v"}}}},
      {grouped_attention_backward,
       "grouped_attention_backward",
       "q:T k:T v:T y:T lse:f dy:T -> dq:T dk:T dv:T",
       [](const Told& t, Shapes in, Shapes) {
         return 2.5 * forward(OpKind::grouped_attention, t, in, in[3]);
       },
       {.attributes = AttentionAttributes{},
        .sizes = [](const Told&, Shapes in, Shapes) { return attention_sizes(in[3], in[4]); },
        .product = true}},
      {cross_entropy,
       "cross_entropy",
       "logits:T~ targets:i -> loss:f+ lse:f",
       same_as<OpKind::cross_entropy>,
       {.attributes = LossAttributes{},
        .operation = OpKind::cross_entropy,
        .backward = {{cross_entropy_backward, "logits targets lse", "logits"}}}},
      {cross_entropy_stats, "cross_entropy_stats", "logits:T~ targets:i -> stats:f",
       same_as<OpKind::cross_entropy>},
      {cross_entropy_merge,
       "cross_entropy_merge",
       "stats:f targets:i -> loss:f+ lse:f",
       per_input<4>,
       {.attributes = LossAttributes{}}},
      {cross_entropy_backward,
       "cross_entropy_backward",
       "logits:T~ targets:i lse:f -> dlogits:T~=logits",
       per_input<3>,
       {.attributes = LossAttributes{}}},
      {route,
       "route",
       "logits:T -> routing:i",
       same_as<OpKind::route>,
       // Only where has_backward(): for the router's own losses.
       {.attributes = RouteAttributes{},
        .random = true,
        .operation = OpKind::route,
        .backward = {{router_losses_backward, "logits", "logits"}}}},
      {expert_load,
       "expert_load",
       "routing:i -> load:f",
       per_input<1>,
       {.attributes = ExpertLoadAttributes{}}},
      {router_sums,
       "router_sums",
       "logits:T routing:i -> sums:f",
       per_input<4>,
       {.attributes = RouterSumsAttributes{}}},
      // Reads, behind what the backward pass of `route` takes, the sums over the whole batch.
      {router_losses_backward,
       "router_losses_backward",
       "logits:T sums:f -> dlogits:T+",
       per_input<8>,
       {.attributes = RouterLossAttributes{}}},
      {gate,
       "gate",
       "logits:T routing:i -> weights:f",
       same_as<OpKind::gate>,
       {.attributes = GateAttributes{},
        .operation = OpKind::gate,
        .backward = {{gate_backward, "logits routing dy", "logits"}}}},
      {gate_backward,
       "gate_backward",
       "logits:T routing:i dweights:f -> dlogits:T",
       twice<OpKind::gate>,
       {.attributes = GateAttributes{}}},
      {expert_counts,
       "expert_counts",
       "routing:i -> counts:i",
       per_input<1>,
       {.attributes = ExpertAttributes{}, .operation = OpKind::expert_counts}},
      {dispatch,
       "dispatch",
       "x:T routing:i -> buffer:T",
       none,
       {.attributes = ExpertAttributes{},
        .operation = OpKind::dispatch,
        .backward = {{dispatch_backward, "routing dy", "x"}}}},
      {dispatch_backward,
       "dispatch_backward",
       "routing:i dbuffer:T -> dx:T",
       [](const Told&, Shapes, Shapes out) { return count(out[0]); },
       {.attributes = ExpertAttributes{}}},
      {expert_matmul,
       "expert_matmul",
       "x:T weight:T counts:i -> y:T",
       same_as<OpKind::expert_matmul>,
       {.sizes = [](const Told&, Shapes in, Shapes out) { return expert_sizes(in[0], out[0]); },
        .product = true,
        .operation = OpKind::expert_matmul,
        .backward = {{expert_matmul_backward_input, "dy weight counts", "x"},
                     {expert_matmul_backward_weight, "x dy counts", "weight"}}}},
      {expert_matmul_backward_input,
       "expert_matmul_backward_input",
       "dy:T weight:T counts:i -> dx:T",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::expert_matmul, t, {out[0], in[1]}, in[0]);
       },
       {.sizes = [](const Told&, Shapes in, Shapes out) { return expert_sizes(out[0], in[0]); },
        .product = true}},
      {expert_matmul_backward_weight,
       "expert_matmul_backward_weight",
       "x:T dy:T counts:i -> dweight:f+",
       [](const Told& t, Shapes in, Shapes out) {
         return forward(OpKind::expert_matmul, t, {in[0], out[0]}, in[1]);
       },
       {.sizes = [](const Told&, Shapes in, Shapes) { return expert_sizes(in[0], in[1]); },
        .product = true}},
      {expert_bias,
       "expert_bias",
       "x:T bias:T counts:i -> y:T=x",
       per_input<1>,
       {.operation = OpKind::expert_bias,
        .backward = {{expert_bias_backward, "dy counts", "bias"}, {{}, "dy", "x"}}}},
      {expert_bias_backward, "expert_bias_backward", "dy:T counts:i -> dbias:f+", per_input<1>},
      {combine,
       "combine",
       "buffer:T routing:i weights:f -> y:T",
       same_as<OpKind::combine>,
       {.attributes = ExpertAttributes{},
        .operation = OpKind::combine,
        .backward = {{combine_backward, "buffer routing weights dy", "buffer weights"}}}},
      {combine_backward,
       "combine_backward",
       "buffer:T routing:i weights:f dy:T -> dbuffer:T dweights:f",
       [](const Told&, Shapes in, Shapes) {  // two products instead of one
         return 2.0 * 2.0 * static_cast<double>(elements(in[3]) * in[1].back());
       },
       {.attributes = ExpertAttributes{}}},
      reshard<ReshardKind::slice>(slice, "slice"),
      reshard<ReshardKind::place>(place, "place"),
      reshard<ReshardKind::all_reduce>(all_reduce, "all_reduce"),
      reshard<ReshardKind::all_gather>(all_gather, "all_gather"),
      reshard<ReshardKind::reduce_scatter>(reduce_scatter, "reduce_scatter"),
      reshard<ReshardKind::all_to_all>(all_to_all, "all_to_all"),
      reshard<ReshardKind::broadcast>(broadcast, "broadcast"),
      reshard<ReshardKind::move>(move, "move"),
      {convert, "convert", "(from:A)* -> (to:A)*", none, {.sizes = tensors_and_elements}},
      {squared_norm,
       "squared_norm",
       "(gradient:f)* -> sum:f+",
       [](const Told&, Shapes in, Shapes) { return per_element_of<2>(in); },
       {.sizes = tensors_and_elements, .one_piece = true}},
      {clip_scale,
       "clip_scale",
       "squared:f -> norm:f scale:f",
       none,
       {.attributes = ClipAttributes{}}},
      {adam,
       "adam",
       "(parameter:f gradient:f m:f v:f)* scale:f -> (parameter:f=parameter m:f=m v:f=v)*",
       // About 12 per parameter, which has three outputs.
       [](const Told&, Shapes, Shapes out) { return per_element_of<4>(out); },
       {.attributes = AdamAttributes{}, .sizes = tensors_and_elements}},
      {adam_rounded,
       "adam_rounded",
       "(master:f gradient:f m:f v:f)* scale:f -> "
       "(master:f=master m:f=m v:f=v parameter:T)*",
       [](const Told&, Shapes, Shapes out) { return per_element_of<3>(out); },
       {.attributes = AdamAttributes{}, .sizes = tensors_and_elements, .fuses = adam}},
  };
  return kRows;
}

}  // namespace hidup
