// The section model of the decks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hidup {

// Mixture of experts: experts replace the feed-forward network of some blocks. A router chooses
// among them for every token.
struct MoeDeck {
  int64_t experts = 0;  // experts of a block; 0: dense, and no other member holds
  // Blocks i (from 0) with i >= first_dense and (i + 1) % every == 0 have experts.
  int64_t every = 0;
  std::string router;
  std::optional<int64_t> top_k;  // none: auto, from the router
  std::string normalize;         // on, off
  // Each expert has ceil(capacity_factor * choices() * sequence / experts) slots per sequence, from
  // 1 to sequence. None: no choice is dropped, and only rows in use are sent and computed.
  std::optional<double> capacity_factor;
  // Without capacity: a rank has room for so many times the mean rows of its experts, and takes
  // more in rounds; nothing: it has room for all rows.
  std::optional<double> slack;
  // Absolute path of a file with measured loads; empty: even ones are expected.
  std::string load;
  // Rows of each expert over their mean, by layer with experts, from that file. No key sets them.
  std::vector<std::shared_ptr<const std::vector<double>>> loads;
  double sigma = 0.0;           // of the router log-normal
  double warn_imbalance = 0.0;  // largest load over the mean; 0: no warnings
  double balance_loss = 0.0;    // weight; 0: none
  std::string balance;          // switch, gshard
  double z_loss = 0.0;          // weight; 0: none
  std::string bias;             // on, off
  std::string score;            // softmax, sigmoid
  double routed_scaling = 1.0;
  std::optional<double> balance_speed;  // none: the choice has no biases
  int64_t shared_experts = 0;
  std::optional<int64_t> ffn;  // inner width of an expert; none: auto, model.ffn
  int64_t first_dense = 0;     // blocks 0 .. first_dense - 1 have no experts

  // Returns true where the router's logits choose the experts, false where a workload does.
  bool learns() const { return router.starts_with("top"); }
  // Returns the experts of a token.
  int64_t choices() const { return top_k.value_or(router == "top1" || router == "hash" ? 1 : 2); }
  bool has_experts(int64_t layer) const {
    return experts > 0 && layer >= first_dense && (layer + 1) % every == 0;
  }
};

// Sizes count elements. Members keep to the limits of their keys and to the relations that
// parse_decks() checks. With a graph, only sequence, vocab and precision hold besides.
struct ModelDeck {
  std::string family;
  std::string graph;  // text file of a graph, absolute; empty: the family is built
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  std::optional<int64_t> kv_heads;  // heads of keys and values; none: auto, as many as heads
  double rope_theta = 1e4;
  double norm_epsilon = 1e-5;
  std::string tied_head;         // on, off
  int64_t sequence = 0;          // kImagePositions (core/images.h) for images
  std::optional<int64_t> vocab;  // none: auto, from the data
  double dropout = 0.0;
  std::string precision;
  MoeDeck moe;

  // Returns the number of blocks with experts.
  int64_t expert_layers() const {
    int64_t count = 0;
    for (int64_t layer = 0; layer < layers; ++layer) {
      count += moe.has_experts(layer) ? 1 : 0;
    }
    return count;
  }
};

}  // namespace hidup
