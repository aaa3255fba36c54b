// Parts of the families of models, for the sources of this folder only.
#pragma once

#include <string>

#include "deck/model_deck.h"
#include "graph/graph.h"

namespace hidup {

// Initial values of a product's weight and bias.
struct LinearInit {
  Init weight;
  Init bias = {};
};

// Differences of the families' blocks beside their order.
struct BlockStyle {
  LinearInit qkv, out;  // projections before and behind attention
  LinearInit up;        // products of feed-forward networks and experts
  LinearInit (*down)(const ModelDeck& model, int64_t width);  // from that inner width
  Init router;
  OpKind activation = OpKind::relu;
  bool activation_dropout = true;  // dropout behind the activation
  bool gated = false;              // feed-forward networks are SwiGLU, without biases
  bool causal = true;              // attention has a causal mask
};

// Builds a graph; every method adds operations and returns the last output.
class BlockBuilder {
 public:
  BlockBuilder(const ModelDeck& model, const BlockStyle& style)
      : model_(model), style_(style), graph_(model.family) {}

  Graph& graph() { return graph_; }

  // Multiplies x[.., k] by weight[k, ..] and adds bias[..]; k has `contract` dimensions.
  TensorId linear(const std::string& name, TensorId x, const Shape& weight, int contract,
                  const LinearInit& init);
  // Multiplies likewise, without a bias.
  TensorId product(const std::string& name, TensorId x, const Shape& weight, int contract,
                   const Init& init);
  TensorId dropout(const std::string& name, TensorId x);  // returns x where the model has none
  TensorId layer_norm(const std::string& name, TensorId x);
  TensorId rms_norm(const std::string& name, TensorId x);
  // Returns x + dropout(y), where y is the output of the half of a block named `half` on x.
  TensorId residual(const std::string& half, TensorId x, TensorId y);

  // Add the halves of a block, x[batch, sequence, hidden] -> y of that shape: attention, and the
  // feed-forward network or, in the layers (from 0) that have them, the experts.
  TensorId attention(const std::string& name, TensorId x);
  TensorId second_half(int64_t layer, const std::string& name, TensorId x);
  // Adds the attention of llama: heads that share keys and values, and rotary positions.
  TensorId grouped_attention(const std::string& name, TensorId x);
  // Returns "ffn" or "moe".
  std::string second_half_name(int64_t layer) const;

 private:
  // The routing of tokens, and the weights of their experts.
  struct Routing {
    TensorId routing, gates, counts;
  };

  TensorId feed_forward(const std::string& name, TensorId x, int64_t width, bool has_bias);
  TensorId gated_feed_forward(const std::string& name, TensorId x, int64_t width);
  Routing route(const std::string& name, TensorId x);
  TensorId expert_linear(const std::string& name, TensorId x, int64_t out, TensorId counts,
                         const LinearInit& init);
  TensorId expert_network(const std::string& name, TensorId x, TensorId counts);
  TensorId experts(const std::string& name, TensorId x);
  TensorId activation(const std::string& name, const std::string& dropout_name, TensorId x);

  const ModelDeck& model_;
  BlockStyle style_;
  Graph graph_;
  int64_t expert_layers_ = 0;  // whose workloads have an input so far
};

}  // namespace hidup
