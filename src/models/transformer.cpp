#include "models/transformer.h"

#include <fmt/core.h>

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

TensorId feed_forward_block(Builder& builder, const ModelDeck& model, const std::string& name,
                            TensorId x) {
  const Init up_init = uniform(1.0 / std::sqrt(static_cast<double>(model.hidden)));
  const Init down_init = uniform(1.0 / std::sqrt(static_cast<double>(model.ffn)));
  const TensorId up =
      builder.linear(name + ".ffn.up", x, {model.hidden, model.ffn}, 1, up_init, up_init);
  const TensorId active =
      builder.dropout(name + ".ffn.activation_dropout",
                      builder.graph().add_op(OpKind::relu, name + ".ffn.relu", {up}));
  const TensorId down = builder.linear(name + ".ffn.down", active, {model.ffn, model.hidden}, 1,
                                       down_init, down_init);
  const TensorId sum = builder.graph().add_op(OpKind::add, name + ".ffn.residual",
                                              {x, builder.dropout(name + ".ffn.dropout", down)});
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
    x = feed_forward_block(builder, model, name, x);
  }
  const TensorId logits = builder.linear("head", x, {model.hidden, vocab}, 1, uniform(0.1), {});
  graph.add_op(OpKind::cross_entropy, "loss", {logits, targets});
  return std::move(graph);
}

}  // namespace hidup
