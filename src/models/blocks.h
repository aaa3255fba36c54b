// What the families of models are built from; for the sources of this folder only.
#pragma once

#include <string>

#include "deck/model_deck.h"
#include "graph/graph.h"

namespace hidup {

// How a product's weight and bias start.
struct LinearInit {
  Init weight;
  Init bias = {};
};

// In what the blocks of the families differ beside their order.
struct BlockStyle {
  LinearInit qkv, out;  // of attention: the projections before and behind it
  LinearInit up, down;  // of feed-forward networks and experts
  Init router;
  OpKind activation = OpKind::relu;
  bool activation_dropout = true;  // dropout behind the activation
  bool gated = false;              // feed-forward networks are SwiGLU, without biases
  bool causal = true;              // of attention
};

// Every method adds operations and returns the last output.
class BlockBuilder {
 public:
  BlockBuilder(const ModelDeck& model, const BlockStyle& style)
      : model_(model), style_(style), graph_(model.family) {}

  Graph& graph() { return graph_; }

  // x[.., k] times weight[k, ..] plus bias[..]; `contract` leading dimensions of the weight
  // are k.
  TensorId linear(const std::string& name, TensorId x, const Shape& weight, int contract,
                  const LinearInit& init);
  // The same without a bias.
  TensorId product(const std::string& name, TensorId x, const Shape& weight, int contract,
                   const Init& init);
  TensorId dropout(const std::string& name, TensorId x);  // x where the model has none
  TensorId layer_norm(const std::string& name, TensorId x);
  TensorId rms_norm(const std::string& name, TensorId x);
  // x + dropout(y), y what the half of a block called `half` makes of x.
  TensorId residual(const std::string& half, TensorId x, TensorId y);

  // The halves of a block, x[batch, sequence, hidden] -> y of that shape: attention, and the
  // feed-forward network or, in the layers (from 0) that have them, the experts.
  TensorId attention(const std::string& name, TensorId x);
  TensorId second_half(int64_t layer, const std::string& name, TensorId x);
  // Those of llama: heads that share keys and values, rotary positions; SwiGLU.
  TensorId grouped_attention(const std::string& name, TensorId x);
  // "ffn" or "moe".
  std::string second_half_name(int64_t layer) const;

 private:
  bool has_experts(int64_t layer) const;
  TensorId feed_forward(const std::string& name, TensorId x);
  TensorId gated_feed_forward(const std::string& name, TensorId x);
  TensorId experts(const std::string& name, TensorId x);
  TensorId activation(const std::string& name, const std::string& dropout_name, TensorId x);

  const ModelDeck& model_;
  BlockStyle style_;
  Graph graph_;
};

}  // namespace hidup
