// A trained model, for commands that do not train it further.
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
#include "train/persistent.h"
#include "train/tokenizer.h"

namespace hidup {

// Returns the deck, with the checkpoint's vocabulary where its own is auto.
Deck with_vocab_of(const CheckpointFile& checkpoint, Deck deck);

// Returns the parameters of the checkpoint's own model; `deck`: deck_of() the checkpoint. Throws
// Error(file) where the file lacks some, or has others.
std::vector<StoredParameter> stored_parameters(const CheckpointFile& checkpoint, const Deck& deck);

// Computes the next token's logits with a checkpoint's model on this process alone. Every call
// computes the whole text, which suits inspection, not serving.
class LanguageModel {
 public:
  // `graph`: text of the deck's model.graph. Experts have a slot for every choice, so padding has
  // no effect. Throws Error(file); Error(usage) where deck and checkpoint have different models, or
  // positions see later ones.
  LanguageModel(Deck deck, const std::string& graph, const CheckpointFile& checkpoint);

  // Uses the last positions of the text, as many as the model has, at least one token. Returns f32
  // [vocab]. Throws Error(not_finite).
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

// The choice of a token from logits.
struct Sampling {
  double temperature = 0.0;  // of the softmax; 0: the largest logit, the first of equal ones
  int64_t top_k = 0;         // only the k largest count, the first of equal ones; 0: all
};
// Returns a token. `uniform`: a random number in [0, 1).
int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform);

}  // namespace hidup
