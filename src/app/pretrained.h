// A trained model, for commands that do not train it on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "deck/deck.h"
#include "device/device.h"
#include "runtime/executor.h"
#include "train/kept.h"
#include "train/tokenizer.h"

namespace hidup {

// The deck, whose vocabulary is the checkpoint's where it is auto.
Deck with_vocab_of(const CheckpointFile& checkpoint, Deck deck);

// The parameters of the checkpoint's own model, whose deck is deck_of() it. Throws Error(file)
// where the file lacks some, or has others.
std::vector<StoredParameter> stored_parameters(const CheckpointFile& checkpoint, const Deck& deck);

// The next token's logits, from a checkpoint's model on this process alone. Every call computes
// the whole text: it is for looking at a model, not for serving one.
class LanguageModel {
 public:
  // `graph`: text of the deck's model.graph. Experts have a slot for every choice, so that what is
  // padded changes nothing. Throws Error(file); Error(usage) where deck and checkpoint have other
  // models, or positions see those behind them.
  LanguageModel(Deck deck, const std::string& graph, const CheckpointFile& checkpoint);

  // Of the last positions of the text, as many as the model has; one token at least.
  // Returns f32 [vocab]. Throws Error(not_finite).
  std::vector<float> next(std::span<const int32_t> text);

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::string path_;  // of the checkpoint
  Deck deck_;
  std::unique_ptr<Communicator> self_;
  std::unique_ptr<Device> device_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<MeshGroups> groups_;
  Program program_;
  std::optional<Store> store_;
  std::optional<Executor> executor_;
  StepInputs inputs_;
};

// How a token is chosen from logits.
struct Sampling {
  double temperature = 0.0;  // of the softmax; 0: the largest logit, of equal ones the first
  int64_t top_k = 0;         // only the k largest count, of equal ones the first; 0: all
};
// `uniform`: a random number in [0, 1).
int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform);

}  // namespace hidup
