#include "models/transformer.h"

#include <fmt/core.h>

#include <cmath>

#include "core/check.h"
#include "core/images.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "models/blocks.h"

namespace hidup {
namespace {

Init uniform(double bound) {
  return {Init::Kind::uniform, bound};
}
Init normal(double deviation) {
  return {Init::Kind::normal, deviation};
}

struct Batch {
  TensorId tokens, targets;  // i32[batch, sequence]
};
Batch add_batch(Graph& graph, const Deck& deck) {
  const Shape shape = {deck.train->batch, deck.model->sequence};
  return {graph.add_input("tokens", DType::i32, shape),
          graph.add_input("targets", DType::i32, shape)};
}

// Starts as PyTorch's modules do: Xavier for attention's three projections together.
BlockStyle bert_style(const ModelDeck& model) {
  const auto hidden = static_cast<double>(model.hidden);
  const Init in_hidden = uniform(1.0 / std::sqrt(hidden));
  return {.qkv = {uniform(std::sqrt(6.0 / (4.0 * hidden)))},
          .out = {in_hidden},
          .up = {in_hidden, in_hidden},
          .down =
              [](const ModelDeck&, int64_t width) {
                const Init start = uniform(1.0 / std::sqrt(static_cast<double>(width)));
                return LinearInit{start, start};
              },
          .router = in_hidden};
}

// Adds a post-norm block.
TensorId bert_block(BlockBuilder& builder, int64_t layer, TensorId x) {
  const std::string name = fmt::format("layers.{}", layer);
  const std::string first = name + ".attention";
  x = builder.residual(first, x, builder.attention(first, x));
  x = builder.layer_norm(name + ".norm1", x);
  const std::string second = name + "." + builder.second_half_name(layer);
  x = builder.residual(second, x, builder.second_half(layer, second, x));
  return builder.layer_norm(name + ".norm2", x);
}

// A batch of tokens with its embedding.
struct EmbeddedTokens {
  TensorId table, x, targets;
};
EmbeddedTokens add_embedded_tokens(Graph& graph, const Deck& deck, int64_t vocab, const Init& init,
                                   double scale = 1.0) {
  const auto [tokens, targets] = add_batch(graph, deck);
  const TensorId table =
      graph.add_parameter("embedding.weight", {vocab, deck.model->hidden}, init, true);
  const TensorId x = graph.add_op(OpKind::embedding, "embedding", {tokens, table},
                                  EmbeddingAttributes{.scale = scale});
  return {table, x, targets};
}

Graph build_bert(const Deck& deck, int64_t vocab) {
  const ModelDeck& model = *deck.model;
  BlockBuilder builder(model, bert_style(model));
  Graph& graph = builder.graph();
  auto [table, x, targets] = add_embedded_tokens(graph, deck, vocab, uniform(0.1),
                                                 std::sqrt(static_cast<double>(model.hidden)));
  x = graph.add_op(OpKind::positions, "positions", {x});
  x = builder.dropout("embedding.dropout", x);
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    x = bert_block(builder, layer, x);
  }
  const TensorId logits =
      builder.linear("head", x, {model.hidden, vocab}, 1, {.weight = uniform(0.1)});
  graph.add_op(OpKind::cross_entropy, "loss", {logits, targets});
  return std::move(graph);
}

// The class token and positions start as in Dosovitskiy et al.
Graph build_vit(const Deck& deck, int64_t classes) {
  const ModelDeck& model = *deck.model;
  BlockStyle style = bert_style(model);
  style.causal = false;
  BlockBuilder builder(model, style);
  Graph& graph = builder.graph();
  const int64_t batch = deck.train->batch;
  const TensorId images =
      graph.add_input("images", DType::f32, {batch, kImagePatches, kPatchValues});
  const TensorId targets = graph.add_input("targets", DType::i32, {batch});
  const Init in_patch = uniform(1.0 / std::sqrt(static_cast<double>(kPatchValues)));
  TensorId x = builder.linear("patches", images, {kPatchValues, model.hidden}, 1,
                              {.weight = in_patch, .bias = in_patch});
  const TensorId token = graph.add_parameter("class_token.weight", {model.hidden}, {}, true);
  x = graph.add_op(OpKind::prepend, "class_token", {x, token});
  const TensorId positions =
      graph.add_parameter("positions.weight", {kImagePositions, model.hidden}, normal(0.02), true);
  x = graph.add_op(OpKind::bias, "positions", {x, positions});
  x = builder.dropout("embedding.dropout", x);
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    x = bert_block(builder, layer, x);
  }
  x = graph.add_op(OpKind::first, "class", {x});
  const TensorId logits =
      builder.linear("head", x, {model.hidden, classes}, 1, {.weight = style.out.weight});
  graph.add_op(OpKind::cross_entropy, "loss", {logits, targets});
  return std::move(graph);
}

// A member function that adds a part of a block.
using Step = TensorId (BlockBuilder::*)(const std::string& name, TensorId x);

// Adds pre-norm blocks and the norm behind them.
TensorId pre_norm_blocks(BlockBuilder& builder, int64_t layers, TensorId x, Step norm,
                         Step attention) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    const std::string first = name + ".attention";
    TensorId y = (builder.*norm)(name + ".norm1", x);
    x = builder.residual(first, x, (builder.*attention)(first, y));
    const std::string second = name + "." + builder.second_half_name(layer);
    y = (builder.*norm)(name + ".norm2", x);
    x = builder.residual(second, x, builder.second_half(layer, second, y));
  }
  return (builder.*norm)("norm", x);
}

// The outputs of blocks start smaller, the more blocks add to the residual stream.
BlockStyle gpt_style(const ModelDeck& model) {
  constexpr double kDeviation = 0.02;
  const auto last = [](const ModelDeck& deck, int64_t) {
    return LinearInit{normal(kDeviation / std::sqrt(2.0 * static_cast<double>(deck.layers)))};
  };
  const Init start = normal(kDeviation);
  return {.qkv = {start},
          .out = last(model, model.ffn),
          .up = {start},
          .down = last,
          .router = start,
          .activation = OpKind::gelu,
          .activation_dropout = false};
}

Graph build_gpt(const Deck& deck, int64_t vocab) {
  const ModelDeck& model = *deck.model;
  const BlockStyle style = gpt_style(model);
  BlockBuilder builder(model, style);
  Graph& graph = builder.graph();
  auto [table, x, targets] = add_embedded_tokens(graph, deck, vocab, style.up.weight);
  const TensorId positions = graph.add_parameter("positions.weight", {model.sequence, model.hidden},
                                                 style.up.weight, true);
  x = graph.add_op(OpKind::bias, "positions", {x, positions});  // the same for every sequence
  x = builder.dropout("embedding.dropout", x);
  x = pre_norm_blocks(builder, model.layers, x, &BlockBuilder::layer_norm,
                      &BlockBuilder::attention);
  const TensorId logits =
      graph.add_op(OpKind::matmul, "head", {x, table}, MatmulAttributes{.transposed = true});
  graph.add_op(OpKind::cross_entropy, "loss", {logits, targets});
  return std::move(graph);
}

// Starts as LlamaForCausalLM in transformers does.
BlockStyle llama_style() {
  const Init start = normal(0.02);
  return {.qkv = {start},
          .out = {start},
          .up = {start},
          .down = [](const ModelDeck&, int64_t) { return LinearInit{normal(0.02)}; },
          .router = start,
          .activation = OpKind::silu,
          .activation_dropout = false,
          .gated = true};
}

Graph build_llama(const Deck& deck, int64_t vocab) {
  const ModelDeck& model = *deck.model;
  const BlockStyle style = llama_style();
  BlockBuilder builder(model, style);
  Graph& graph = builder.graph();
  auto [table, x, targets] = add_embedded_tokens(graph, deck, vocab, style.up.weight);
  x = builder.dropout("embedding.dropout", x);
  x = pre_norm_blocks(builder, model.layers, x, &BlockBuilder::rms_norm,
                      &BlockBuilder::grouped_attention);
  const TensorId logits =
      model.tied_head == "on"
          ? graph.add_op(OpKind::matmul, "head", {x, table}, MatmulAttributes{.transposed = true})
          : builder.product("head", x, {model.hidden, vocab}, 1, style.up.weight);
  graph.add_op(OpKind::cross_entropy, "loss", {logits, targets});
  return std::move(graph);
}

}  // namespace

Graph build_model(const Deck& deck, int64_t vocab) {
  if (deck.model->family == "gpt") {
    return build_gpt(deck, vocab);
  }
  if (deck.model->family == "vit") {
    return build_vit(deck, vocab);
  }
  if (deck.model->family == "llama") {
    return build_llama(deck, vocab);
  }
  check(deck.model->family == "bert", "no model of the family {}", deck.model->family);
  return build_bert(deck, vocab);
}

}  // namespace hidup
