#include "models/transformer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace hidup {
namespace {

// Small words for building: every method adds operations and returns the last output.
class Builder {
 public:
  Builder(const std::string& name, double dropout) : graph_(name), dropout_(dropout) {}

  Graph& graph() { return graph_; }

  // x[.., k] times weight[k, ..] plus bias[..]; `contract` leading dimensions of
  // the weight are k. Both start as `init`, the bias only if `bias_init` says so.
  TensorId linear(const std::string& name, TensorId x, const Shape& weight, int contract, Init init,
                  Init bias_init) {
    const Shape bias(weight.begin() + contract, weight.end());
    const TensorId w = graph_.add_parameter(name + ".weight", weight, init, true);
    const TensorId b = graph_.add_parameter(name + ".bias", bias, bias_init, false);
    const TensorId product =
        graph_.add_op(OpKind::matmul, name, {x, w}, {{"contract", static_cast<double>(contract)}});
    return graph_.add_op(OpKind::bias, name + ".biased", {product, b});
  }

  TensorId dropout(const std::string& name, TensorId x) {
    return dropout_ > 0.0 ? graph_.add_op(OpKind::dropout, name, {x}, {{"p", dropout_}}) : x;
  }

  TensorId layer_norm(const std::string& name, TensorId x) {
    const Shape width = {graph_.tensor(x).shape.back()};
    const TensorId weight =
        graph_.add_parameter(name + ".weight", width, {Init::Kind::ones, 0.0}, false);
    const TensorId bias = graph_.add_parameter(name + ".bias", width, {}, false);
    return graph_.add_op(OpKind::layer_norm, name, {x, weight, bias});
  }

 private:
  Graph graph_;
  double dropout_;
};

Init uniform(double bound) {
  return {Init::Kind::uniform, bound};
}

TensorId attention_block(Builder& builder, const ModelDeck& model, const std::string& name,
                         TensorId x) {
  const int64_t head = model.hidden / model.heads;
  const auto hidden = static_cast<double>(model.hidden);
  // Xavier for the three projections together, as PyTorch's MultiheadAttention.
  const TensorId qkv =
      builder.linear(name + ".attention.qkv", x, {model.hidden, 3, model.heads, head}, 1,
                     uniform(std::sqrt(6.0 / (4.0 * hidden))), {});
  const TensorId mixed =
      builder.graph().add_op(OpKind::attention, name + ".attention", {qkv}, {{"causal", 1.0}});
  const TensorId out =
      builder.linear(name + ".attention.out", mixed, {model.heads, head, model.hidden}, 2,
                     uniform(1.0 / std::sqrt(hidden)), {});
  const TensorId sum =
      builder.graph().add_op(OpKind::add, name + ".attention.residual",
                             {x, builder.dropout(name + ".attention.dropout", out)});
  return builder.layer_norm(name + ".norm1", sum);
}

TensorId feed_forward(Builder& builder, const ModelDeck& model, const std::string& name,
                      TensorId x) {
  const Init up_init = uniform(1.0 / std::sqrt(static_cast<double>(model.hidden)));
  const Init down_init = uniform(1.0 / std::sqrt(static_cast<double>(model.ffn)));
  const TensorId up =
      builder.linear(name + ".ffn.up", x, {model.hidden, model.ffn}, 1, up_init, up_init);
  const TensorId active =
      builder.dropout(name + ".ffn.activation_dropout",
                      builder.graph().add_op(OpKind::relu, name + ".ffn.relu", {up}));
  return builder.linear(name + ".ffn.down", active, {model.ffn, model.hidden}, 1, down_init,
                        down_init);
}

// Slots that an expert has for the tokens of a sequence.
int64_t capacity_of(const ModelDeck& model, int64_t choices) {
  const double slots =
      std::ceil(model.moe.capacity_factor * static_cast<double>(choices) *
                static_cast<double>(model.sequence) / static_cast<double>(model.moe.experts));
  return static_cast<int64_t>(std::clamp(slots, 1.0, static_cast<double>(model.sequence)));
}

// A feed-forward network per expert; every token goes to the one or two that its router
// prefers.
TensorId mixture_of_experts(Builder& builder, const ModelDeck& model, const std::string& name,
                            TensorId x) {
  Graph& graph = builder.graph();
  const int64_t experts = model.moe.experts;
  const int64_t choices = model.moe.router == "top2" ? 2 : 1;
  const Init up_init = uniform(1.0 / std::sqrt(static_cast<double>(model.hidden)));
  const Init down_init = uniform(1.0 / std::sqrt(static_cast<double>(model.ffn)));

  const TensorId router =
      graph.add_parameter(name + ".router.weight", {model.hidden, experts}, up_init, true);
  const TensorId logits = graph.add_op(OpKind::matmul, name + ".router", {x, router});
  const TensorId routing =
      graph.add_op(OpKind::route, name + ".routing", {logits},
                   {{"capacity", static_cast<double>(capacity_of(model, choices))},
                    {"choices", static_cast<double>(choices)},
                    {"hash", model.moe.router == "hash" ? 1.0 : 0.0}});
  const TensorId gates = graph.add_op(OpKind::gate, name + ".gates", {logits, routing});
  const TensorId counts = graph.add_op(OpKind::expert_counts, name + ".counts", {routing});

  const auto linear = [&](const std::string& part, TensorId input, int64_t in, int64_t out,
                          Init init) {
    const std::string full = name + ".experts." + part;
    const TensorId weight = graph.add_parameter(full + ".weight", {experts, in, out}, init, true);
    const TensorId bias = graph.add_parameter(full + ".bias", {experts, out}, init, false);
    const TensorId product = graph.add_op(OpKind::expert_matmul, full, {input, weight, counts});
    return graph.add_op(OpKind::expert_bias, full + ".biased", {product, bias, counts});
  };
  const TensorId buffer = graph.add_op(OpKind::dispatch, name + ".dispatch", {x, routing});
  const TensorId up = linear("up", buffer, model.hidden, model.ffn, up_init);
  const TensorId active = builder.dropout(name + ".activation_dropout",
                                          graph.add_op(OpKind::relu, name + ".experts.relu", {up}));
  const TensorId down = linear("down", active, model.ffn, model.hidden, down_init);
  return graph.add_op(OpKind::combine, name + ".combine", {down, routing, gates});
}

TensorId second_block(Builder& builder, const ModelDeck& model, int64_t layer,
                      const std::string& name, TensorId x) {
  const bool experts = model.moe.experts > 0 && (layer + 1) % model.moe.every == 0;
  const std::string part = name + (experts ? ".moe" : ".ffn");
  const TensorId y =
      experts ? mixture_of_experts(builder, model, part, x) : feed_forward(builder, model, name, x);
  const TensorId sum = builder.graph().add_op(OpKind::add, part + ".residual",
                                              {x, builder.dropout(part + ".dropout", y)});
  return builder.layer_norm(name + ".norm2", sum);
}

}  // namespace

Graph build_model(const Deck& deck, int64_t vocab) {
  const ModelDeck& model = deck.model;
  Builder builder(model.family, model.dropout);
  Graph& graph = builder.graph();
  const Shape batch = {deck.train.batch, model.sequence};
  const TensorId tokens = graph.add_input("tokens", DType::i32, batch);
  const TensorId targets = graph.add_input("targets", DType::i32, batch);

  const TensorId table =
      graph.add_parameter("embedding.weight", {vocab, model.hidden}, uniform(0.1), true);
  TensorId x = graph.add_op(OpKind::embedding, "embedding", {tokens, table},
                            {{"scale", std::sqrt(static_cast<double>(model.hidden))}});
  x = graph.add_op(OpKind::positions, "positions", {x});
  x = builder.dropout("embedding.dropout", x);
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    x = attention_block(builder, model, name, x);
    x = second_block(builder, model, layer, name, x);
  }
  const TensorId logits = builder.linear("head", x, {model.hidden, vocab}, 1, uniform(0.1), {});
  graph.add_op(OpKind::cross_entropy, "loss", {logits, targets});
  return std::move(graph);
}

}  // namespace hidup
