#include "program/opcode_rows.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace hidup {
namespace rows {
namespace {

Rows token_rows() {
  using enum Opcode;
  return {
      forward_pass<OpKind::embedding>(embedding, "tokens:i table:T -> y:T",
                                      {{embedding_backward, "tokens dy", "table"}}),
      {embedding_backward,
       "embedding_backward",
       "tokens:i dy:T -> dtable:f+",
       [](const Told&, Shapes in, Shapes) { return count(in[1]); },
       {.attributes = EmbeddingAttributes{}}},
      forward_pass<OpKind::positions>(positions, "x:T -> y:T=x", {{{}, "dy", "x"}}),
      forward_pass<OpKind::rotary>(rotary, "x:T -> y:T=x", {{rotary_backward, "dy", "x"}}),
      {rotary_backward,
       "rotary_backward",
       "dy:T -> dx:T=dy",
       same_as<OpKind::rotary>,
       {.attributes = RotaryAttributes{}}},
      forward_pass<OpKind::prepend>(prepend, "x:T token:T -> y:T",
                                    {{prepend_backward, "dy", "x token"}}),
      {prepend_backward, "prepend_backward", "dy:T -> dx:T dtoken:f+",
       [](const Told&, Shapes in, Shapes) {  // the sum over the batch
         return static_cast<double>(in[0][0] * in[0][2]);
       }},
      forward_pass<OpKind::first>(first, "x:T -> y:T", {{first_backward, "dy", "x"}}),
      {first_backward, "first_backward", "dy:T -> dx:T", none},
  };
}

Rows product_rows() {
  using enum Opcode;
  using enum Computes;
  constexpr OpKind kMatmul = OpKind::matmul;
  return {
      product_forward<kMatmul>(matmul, "x:T weight:T -> y:T~",
                               {matmul_backward_input, "dy weight", "x"},
                               {matmul_backward_weight, "x dy", "weight"}),
      product<kMatmul, output, 1>(matmul_bias, "matmul_bias", "x:T weight:T bias:T -> y:T~",
                                  matmul),
      product<kMatmul, output, 2>(matmul_bias_relu, "matmul_bias_relu",
                                  "x:T weight:T bias:T -> y:T", matmul),
      product<kMatmul, output, 1, 1>(matmul_bias_gelu, "matmul_bias_gelu",
                                     "x:T weight:T bias:T -> y:T before_gelu:T", matmul),
      product<kMatmul, input_gradient>(matmul_backward_input, "matmul_backward_input",
                                       "dy:T~ weight:T -> dx:T+"),
      product<kMatmul, input_gradient, 0, 2>(matmul_backward_input_gelu,
                                             "matmul_backward_input_gelu",
                                             "dy:T~ weight:T x:T -> dx:T", matmul_backward_input),
      product<kMatmul, weight_gradient>(matmul_backward_weight, "matmul_backward_weight",
                                        "x:T dy:T~ -> dweight:f+"),
      product<kMatmul, weight_gradient, 1>(
          matmul_backward_weight_bias, "matmul_backward_weight_bias",
          "x:T dy:T~ -> dweight:f+ dbias:f+", matmul_backward_weight),
      product_forward<OpKind::wide_matmul>(wide_matmul, "x:T weight:T -> y:f",
                                           {matmul_backward_input, "dy weight", "x"},
                                           {matmul_backward_weight, "x dy", "weight"}),
  };
}

Rows element_rows() {
  using enum Opcode;
  return {
      forward_pass<OpKind::bias>(bias, "x:T~ bias:T -> y:T~=x",
                                 {{bias_backward, "dy", "bias"}, {{}, "dy", "x"}}),
      {bias_backward, "bias_backward", "dy:T~ -> dbias:f+", per_input<1>},
      forward_pass<OpKind::relu>(relu, "x:T -> y:T=x", {{relu_backward, "y dy", "x"}}),
      {relu_backward, "relu_backward", "y:T dy:T -> dx:T=dy", per_input<1>},
      forward_pass<OpKind::gelu>(gelu, "x:T -> y:T", {{gelu_backward, "x dy", "x"}}),
      {gelu_backward, "gelu_backward", "x:T dy:T -> dx:T=dy", twice<OpKind::gelu>},
      forward_pass<OpKind::silu>(silu, "x:T -> y:T", {{silu_backward, "x dy", "x"}}),
      {silu_backward, "silu_backward", "x:T dy:T -> dx:T=dy", twice<OpKind::silu>},
      forward_pass<OpKind::swiglu>(swiglu, "gate:T up:T -> y:T",
                                   {{swiglu_backward, "gate up dy", "gate up"}}),
      {swiglu_backward, "swiglu_backward", "gate:T up:T dy:T -> dgate:T=dy dup:T",
       twice<OpKind::swiglu>},
      // the backward pass uses the same mask
      forward_pass<OpKind::dropout>(dropout, "x:T -> y:T=x", {{dropout, "dy", "x"}},
                                    {.random = true}),
      forward_pass<OpKind::add>(add, "a:T b:T -> y:T=a,b", {{{}, "dy", "a"}, {{}, "dy", "b"}}),
  };
}

struct Named {
  Opcode opcode;
  std::string_view name;
};

// Returns a norm's rows: alone, after a sum, backward, and backward with a sum.
template <OpKind kKind>
Rows norm_rows(Opcode norm, const Named& of_sum, const Named& backward, const Named& backward_add) {
  constexpr bool kCentered = kKind == OpKind::layer_norm;  // has a mean and a bias
  return {
      forward_pass<kKind>(
          norm,
          kCentered ? "x:T weight:T bias:T -> y:T mean:f rstd:f" : "x:T weight:T -> y:T rstd:f",
          {{backward.opcode, kCentered ? "x weight mean rstd dy" : "x weight rstd dy",
            kCentered ? "x weight bias" : "x weight"}}),
      {of_sum.opcode,
       of_sum.name,
       kCentered ? "branch:T residual:T weight:T bias:T -> y:T sum:T=branch mean:f rstd:f"
                 : "branch:T residual:T weight:T -> y:T sum:T=branch rstd:f",
       [](const Told& t, Shapes in, Shapes out) {  // dropout and the sum: three more per element
         return same_as<kKind>(t, in, out) + 3.0 * count(in[0]);
       },
       {.attributes = ResidualNormAttributes{}, .fuses = norm}},
      {backward.opcode, backward.name,
       kCentered ? "x:T weight:T mean:f rstd:f dy:T -> dx:T dweight:f+ dbias:f+"
                 : "x:T weight:T rstd:f dy:T -> dx:T dweight:f+",
       twice<kKind>},
      {backward_add.opcode,
       backward_add.name,
       kCentered ? "x:T weight:T mean:f rstd:f dy:T added:T -> dx:T dweight:f+ dbias:f+"
                 : "x:T weight:T rstd:f dy:T added:T -> dx:T dweight:f+",
       [](const Told& t, Shapes in, Shapes out) { return twice<kKind>(t, in, out) + count(in[0]); },
       {.fuses = backward.opcode}},
  };
}

Rows attention_rows() {
  using enum Opcode;
  return {
      attention_forward<OpKind::attention>(attention, "qkv:T -> y:T lse:f",
                                           {attention_backward, "qkv y lse dy", "qkv"}),
      attention_backwards<OpKind::attention>(attention_backward, "attention_backward",
                                             "qkv:T y:T lse:f dy:T -> dqkv:T"),
      attention_forward<OpKind::grouped_attention>(
          grouped_attention, "q:T k:T v:T -> y:T lse:f",
          {grouped_attention_backward, "q k v y lse dy", "q k v"}),
      attention_backwards<OpKind::grouped_attention>(
          grouped_attention_backward, "grouped_attention_backward",
          "q:T k:T v:T y:T lse:f dy:T -> dq:T dk:T dv:T"),
  };
}

Rows loss_rows() {
  using enum Opcode;
  return {
      forward_pass<OpKind::cross_entropy>(
          cross_entropy, "logits:T~ targets:i -> loss:f+ lse:f",
          {{cross_entropy_backward, "logits targets lse", "logits"}},
          {.attributes = LossAttributes{}}),
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
  };
}

Rows routing_rows() {
  using enum Opcode;
  return {
      // The backward pass exists only for the router's own losses (has_backward()).
      forward_pass<OpKind::route>(route, "logits:T -> routing:i",
                                  {{router_losses_backward, "logits", "logits"}}),
      forward_pass<OpKind::route_biased>(route_biased, "logits:T bias:f -> routing:i",
                                         {{router_losses_backward, "logits", "logits"}}),
      forward_pass<OpKind::route_chosen>(route_chosen, "logits:T chosen:i -> routing:i",
                                         {{router_losses_backward, "logits", "logits"}}),
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
      // After the operands of the backward step of `route`, it reads the sums over the whole batch.
      {router_losses_backward,
       "router_losses_backward",
       "logits:T sums:f -> dlogits:T+",
       per_input<8>,
       {.attributes = RouterLossAttributes{}}},
      forward_pass<OpKind::gate>(gate, "logits:T routing:i -> weights:f",
                                 {{gate_backward, "logits routing dy", "logits"}}),
      {gate_backward,
       "gate_backward",
       "logits:T routing:i dweights:f -> dlogits:T",
       twice<OpKind::gate>,
       {.attributes = GateAttributes{}}},
      forward_pass<OpKind::expert_counts>(expert_counts, "routing:i -> counts:i", {}),
      forward_pass<OpKind::dispatch>(dispatch, "x:T routing:i -> buffer:T",
                                     {{dispatch_backward, "routing dy", "x"}}),
      {dispatch_backward,
       "dispatch_backward",
       "routing:i dbuffer:T -> dx:T",
       [](const Told&, Shapes, Shapes out) { return count(out[0]); },
       {.attributes = ExpertAttributes{}}},
  };
}

Rows expert_rows() {
  using enum Opcode;
  using enum Computes;
  constexpr OpKind kExperts = OpKind::expert_matmul;
  return {
      product_forward<kExperts>(expert_matmul, "x:T weight:T counts:i -> y:T",
                                {expert_matmul_backward_input, "dy weight counts", "x"},
                                {expert_matmul_backward_weight, "x dy counts", "weight"}),
      product<kExperts, input_gradient>(expert_matmul_backward_input,
                                        "expert_matmul_backward_input",
                                        "dy:T weight:T counts:i -> dx:T"),
      product<kExperts, weight_gradient>(expert_matmul_backward_weight,
                                         "expert_matmul_backward_weight",
                                         "x:T dy:T counts:i -> dweight:f+"),
      forward_pass<OpKind::expert_bias>(
          expert_bias, "x:T bias:T counts:i -> y:T=x",
          {{expert_bias_backward, "dy counts", "bias"}, {{}, "dy", "x"}}),
      {expert_bias_backward, "expert_bias_backward", "dy:T counts:i -> dbias:f+", per_input<1>},
      forward_pass<OpKind::combine>(
          combine, "buffer:T routing:i weights:f -> y:T",
          {{combine_backward, "buffer routing weights dy", "buffer weights"}}),
      {combine_backward,
       "combine_backward",
       "buffer:T routing:i weights:f dy:T -> dbuffer:T dweights:f",
       [](const Told&, Shapes in, Shapes) {  // two products instead of one
         return 2.0 * 2.0 * static_cast<double>(elements(in[3]) * in[1].back());
       },
       {.attributes = ExpertAttributes{}}},
      forward_pass<OpKind::round_counts>(round_counts, "all:i -> counts:i", {}),
      forward_pass<OpKind::expert_pack>(expert_pack, "x:T routing:i counts:i -> rows:T",
                                        {{expert_pack_backward, "routing counts dy", "x"}}),
      {expert_pack_backward,
       "expert_pack_backward",
       "routing:i counts:i drows:T -> dx:T",
       [](const Told&, Shapes, Shapes out) { return count(out[0]); },
       {.attributes = PackAttributes{}}},
      forward_pass<OpKind::expert_unpack>(
          expert_unpack, "rows:T routing:i weights:f counts:i -> y:T",
          {{expert_unpack_backward, "rows routing weights counts dy", "rows weights"}}),
      {expert_unpack_backward,
       "expert_unpack_backward",
       "rows:T routing:i weights:f counts:i dy:T -> drows:T dweights:f",
       [](const Told&, Shapes in, Shapes) {
         return 2.0 * 2.0 * static_cast<double>(elements(in[4]) * in[1].back());
       },
       {.attributes = PackAttributes{}}},
  };
}

Rows reshard_rows() {
  using enum Opcode;
  return {
      reshard<ReshardKind::slice>(slice, "slice"),
      reshard<ReshardKind::place>(place, "place"),
      reshard<ReshardKind::all_reduce>(all_reduce, "all_reduce"),
      reshard<ReshardKind::all_gather>(all_gather, "all_gather"),
      reshard<ReshardKind::reduce_scatter>(reduce_scatter, "reduce_scatter"),
      reshard<ReshardKind::all_to_all>(all_to_all, "all_to_all"),
      reshard<ReshardKind::broadcast>(broadcast, "broadcast"),
      reshard<ReshardKind::move>(move, "move"),
  };
}

Rows update_rows() {
  using enum Opcode;
  return {
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
       // About 12 flops per parameter, which has three outputs.
       [](const Told&, Shapes, Shapes out) { return per_element_of<4>(out); },
       {.attributes = AdamAttributes{}, .sizes = tensors_and_elements}},
      {adam_rounded,
       "adam_rounded",
       "(master:f gradient:f m:f v:f)* scale:f -> "
       "(master:f=master m:f=m v:f=v parameter:T)*",
       [](const Told&, Shapes, Shapes out) { return per_element_of<3>(out); },
       {.attributes = AdamAttributes{}, .sizes = tensors_and_elements, .fuses = adam}},
      {move_router_bias,
       "move_router_bias",
       "bias:f load:f scale:f -> moved:f=bias",
       [](const Told&, Shapes in, Shapes) { return 2.0 * count(in[1]); },
       {.attributes = RouterBiasAttributes{}}},
  };
}

// Lists the rows in the order of Opcode.
Rows all_rows() {
  using enum Opcode;
  Rows all;
  for (Rows& rows : std::array{
           token_rows(), product_rows(), element_rows(),
           norm_rows<OpKind::layer_norm>(layer_norm, {residual_norm, "residual_norm"},
                                         {layer_norm_backward, "layer_norm_backward"},
                                         {layer_norm_backward_add, "layer_norm_backward_add"}),
           norm_rows<OpKind::rms_norm>(rms_norm, {residual_rms_norm, "residual_rms_norm"},
                                       {rms_norm_backward, "rms_norm_backward"},
                                       {rms_norm_backward_add, "rms_norm_backward_add"}),
           attention_rows(), loss_rows(), routing_rows(), expert_rows(), reshard_rows(),
           update_rows()}) {
    std::ranges::move(rows, std::back_inserter(all));
  }
  return all;
}

}  // namespace
}  // namespace rows

const std::vector<OpcodeRow>& opcode_rows() {
  static const rows::Rows kRows = rows::all_rows();
  return kRows;
}

}  // namespace hidup
