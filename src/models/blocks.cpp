#include "models/blocks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "deck/model_deck.h"
#include "graph/operation.h"

namespace hidup {
namespace {

// Returns the slots of an expert for a sequence of so many tokens.
int64_t capacity_of(const MoeDeck& moe, int64_t tokens) {
  if (!moe.capacity_factor) {
    return tokens;
  }
  const double even =
      static_cast<double>(moe.choices() * tokens) / static_cast<double>(moe.experts);
  return static_cast<int64_t>(
      std::clamp(std::ceil(*moe.capacity_factor * even), 1.0, static_cast<double>(tokens)));
}

}  // namespace

TensorId BlockBuilder::linear(const std::string& name, TensorId x, const Shape& weight,
                              int contract, const LinearInit& init) {
  const Shape bias(weight.begin() + contract, weight.end());
  const TensorId w = graph_.add_parameter(name + ".weight", weight, init.weight, true);
  const TensorId b = graph_.add_parameter(name + ".bias", bias, init.bias, false);
  const TensorId product =
      graph_.add_op(OpKind::matmul, name, {x, w}, MatmulAttributes{.contract = contract});
  return graph_.add_op(OpKind::bias, name + ".biased", {product, b});
}

TensorId BlockBuilder::product(const std::string& name, TensorId x, const Shape& weight,
                               int contract, const Init& init) {
  const TensorId w = graph_.add_parameter(name + ".weight", weight, init, true);
  return graph_.add_op(OpKind::matmul, name, {x, w}, MatmulAttributes{.contract = contract});
}

TensorId BlockBuilder::dropout(const std::string& name, TensorId x) {
  const double p = model_.dropout;
  return p > 0.0 ? graph_.add_op(OpKind::dropout, name, {x}, DropoutAttributes{.p = p}) : x;
}

TensorId BlockBuilder::layer_norm(const std::string& name, TensorId x) {
  const Shape width = {graph_.tensor(x).shape.back()};
  const TensorId weight =
      graph_.add_parameter(name + ".weight", width, {Init::Kind::ones, 0.0}, false);
  const TensorId bias = graph_.add_parameter(name + ".bias", width, {}, false);
  return graph_.add_op(OpKind::layer_norm, name, {x, weight, bias},
                       LayerNormAttributes{.epsilon = model_.norm_epsilon});
}

TensorId BlockBuilder::rms_norm(const std::string& name, TensorId x) {
  const TensorId weight = graph_.add_parameter(name + ".weight", {graph_.tensor(x).shape.back()},
                                               {Init::Kind::ones, 0.0}, false);
  return graph_.add_op(OpKind::rms_norm, name, {x, weight},
                       LayerNormAttributes{.epsilon = model_.norm_epsilon});
}

TensorId BlockBuilder::residual(const std::string& half, TensorId x, TensorId y) {
  const TensorId dropped = dropout(half + ".dropout", y);
  return graph_.add_op(OpKind::add, half + ".residual", {x, dropped});
}

TensorId BlockBuilder::attention(const std::string& name, TensorId x) {
  const int64_t head = model_.hidden / model_.heads;
  const TensorId qkv =
      linear(name + ".qkv", x, {model_.hidden, 3, model_.heads, head}, 1, style_.qkv);
  const TensorId mixed =
      graph_.add_op(OpKind::attention, name, {qkv}, AttentionAttributes{.causal = style_.causal});
  return linear(name + ".out", mixed, {model_.heads, head, model_.hidden}, 2, style_.out);
}

TensorId BlockBuilder::grouped_attention(const std::string& name, TensorId x) {
  const int64_t head = model_.hidden / model_.heads;
  const int64_t kv_heads = model_.kv_heads.value_or(model_.heads);
  const int64_t group = model_.heads / kv_heads;
  const auto turned = [&](const std::string& part, TensorId y) {
    return graph_.add_op(OpKind::rotary, name + part, {y},
                         RotaryAttributes{.theta = model_.rope_theta});
  };
  const auto projected = [&](const std::string& part, const Shape& weight) {
    return product(name + part, x, weight, 1, style_.qkv.weight);
  };
  const TensorId q = turned(".q.turned", projected(".q", {model_.hidden, kv_heads, group, head}));
  const TensorId k = turned(".k.turned", projected(".k", {model_.hidden, kv_heads, head}));
  const TensorId v = projected(".v", {model_.hidden, kv_heads, head});
  const TensorId mixed = graph_.add_op(OpKind::grouped_attention, name, {q, k, v},
                                       AttentionAttributes{.causal = style_.causal});
  return product(name + ".out", mixed, {kv_heads, group, head, model_.hidden}, 3,
                 style_.out.weight);
}

TensorId BlockBuilder::activation(const std::string& name, const std::string& dropout_name,
                                  TensorId x) {
  const std::string full = fmt::format("{}.{}", name, spec_of(style_.activation).name);
  const TensorId y = graph_.add_op(style_.activation, full, {x});
  return style_.activation_dropout ? dropout(dropout_name, y) : y;
}

TensorId BlockBuilder::feed_forward(const std::string& name, TensorId x, int64_t width,
                                    bool has_bias) {
  const auto layer = [&](const std::string& part, TensorId input, const Shape& weight,
                         const LinearInit& init) {
    return has_bias ? linear(name + part, input, weight, 1, init)
                    : product(name + part, input, weight, 1, init.weight);
  };
  const TensorId up = layer(".up", x, {model_.hidden, width}, style_.up);
  const TensorId active = activation(name, name + ".activation_dropout", up);
  return layer(".down", active, {width, model_.hidden}, style_.down(model_, width));
}

TensorId BlockBuilder::gated_feed_forward(const std::string& name, TensorId x, int64_t width) {
  const TensorId gate = product(name + ".gate", x, {model_.hidden, width}, 1, style_.up.weight);
  const TensorId up = product(name + ".up", x, {model_.hidden, width}, 1, style_.up.weight);
  const TensorId active = graph_.add_op(OpKind::swiglu, name + ".swiglu", {gate, up});
  return product(name + ".down", active, {width, model_.hidden}, 1,
                 style_.down(model_, width).weight);
}

BlockBuilder::Routing BlockBuilder::route(const std::string& name, TensorId x) {
  const MoeDeck& moe = model_.moe;
  const bool sigmoid = moe.score == "sigmoid";
  const TensorId router = graph_.add_parameter(name + ".router.weight",
                                               {model_.hidden, moe.experts}, style_.router, true);
  const TensorId logits = graph_.add_op(OpKind::wide_matmul, name + ".router", {x, router});
  RouteAttributes attributes{.capacity = capacity_of(moe, graph_.tensor(x).shape[1]),
                             .choices = moe.choices(),
                             .balance_loss = moe.balance_loss,
                             .z_loss = moe.z_loss,
                             .gshard = moe.balance == "gshard"};
  std::vector<TensorId> inputs = {logits};
  OpKind kind = OpKind::route;
  if (!moe.learns()) {
    const Shape& shape = graph_.tensor(logits).shape;
    kind = OpKind::route_chosen;
    inputs.push_back(graph_.add_input(fmt::format("{}{}", kChoices, expert_layers_++), DType::i32,
                                      {shape[0], shape[1], moe.choices()}));
  } else if (moe.balance_speed) {
    kind = OpKind::route_biased;
    attributes.sigmoid = sigmoid;
    attributes.speed = *moe.balance_speed;
    inputs.push_back(graph_.add_parameter(name + ".router.balance", {moe.experts}, {}, false));
  }
  const TensorId routing = graph_.add_op(kind, name + ".routing", inputs, attributes);
  const TensorId gates = graph_.add_op(
      OpKind::gate, name + ".gates", {logits, routing},
      GateAttributes{
          .normalize = moe.normalize != "off", .scale = moe.routed_scaling, .sigmoid = sigmoid});
  return {routing, gates, graph_.add_op(OpKind::expert_counts, name + ".counts", {routing})};
}

TensorId BlockBuilder::expert_linear(const std::string& name, TensorId x, int64_t out,
                                     TensorId counts, const LinearInit& init) {
  const int64_t count = model_.moe.experts;
  const TensorId weight = graph_.add_parameter(
      name + ".weight", {count, graph_.tensor(x).shape.back(), out}, init.weight, true);
  if (model_.moe.bias == "off") {
    return graph_.add_op(OpKind::expert_matmul, name, {x, weight, counts});
  }
  const TensorId bias = graph_.add_parameter(name + ".bias", {count, out}, init.bias, false);
  const TensorId product = graph_.add_op(OpKind::expert_matmul, name, {x, weight, counts});
  return graph_.add_op(OpKind::expert_bias, name + ".biased", {product, bias, counts});
}

TensorId BlockBuilder::expert_network(const std::string& name, TensorId x, TensorId counts) {
  const std::string full = name + ".experts";
  const int64_t width = model_.moe.ffn.value_or(model_.ffn);
  TensorId active = -1;
  if (style_.gated) {
    const TensorId gate = expert_linear(full + ".gate", x, width, counts, style_.up);
    const TensorId up = expert_linear(full + ".up", x, width, counts, style_.up);
    active = graph_.add_op(OpKind::swiglu, full + ".swiglu", {gate, up});
  } else {
    const TensorId up = expert_linear(full + ".up", x, width, counts, style_.up);
    active = activation(full, name + ".activation_dropout", up);
  }
  return expert_linear(full + ".down", active, model_.hidden, counts, style_.down(model_, width));
}

TensorId BlockBuilder::experts(const std::string& name, TensorId x) {
  const auto [routing, gates, counts] = route(name, x);
  const bool packs = !model_.moe.capacity_factor;
  const TensorId buffer =
      packs ? graph_.add_op(OpKind::expert_pack, name + ".pack", {x, routing, counts})
            : graph_.add_op(OpKind::dispatch, name + ".dispatch", {x, routing});
  const TensorId down = expert_network(name, buffer, counts);
  const TensorId routed =
      packs ? graph_.add_op(OpKind::expert_unpack, name + ".unpack", {down, routing, gates, counts})
            : graph_.add_op(OpKind::combine, name + ".combine", {down, routing, gates});
  if (model_.moe.shared_experts == 0) {
    return routed;
  }
  const std::string beside = name + ".shared";
  const int64_t width = model_.moe.shared_experts * model_.moe.ffn.value_or(model_.ffn);
  const TensorId shared = style_.gated ? gated_feed_forward(beside, x, width)
                                       : feed_forward(beside, x, width, model_.moe.bias != "off");
  return graph_.add_op(OpKind::add, name + ".sum", {routed, shared});
}

std::string BlockBuilder::second_half_name(int64_t layer) const {
  return model_.moe.has_experts(layer) ? "moe" : "ffn";
}

TensorId BlockBuilder::second_half(int64_t layer, const std::string& name, TensorId x) {
  if (model_.moe.has_experts(layer)) {
    return experts(name, x);
  }
  return style_.gated ? gated_feed_forward(name, x, model_.ffn)
                      : feed_forward(name, x, model_.ffn, true);
}

}  // namespace hidup
