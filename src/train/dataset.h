// Datasets from the data section of the deck.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "deck/deck.h"
#include "train/batches.h"

namespace hidup {

// The open data of a run.
struct Dataset {
  std::unique_ptr<Batches> batches;
  std::unique_ptr<Batches> validation;  // in file order; null: no validation
  int64_t validation_sequences = 0;     // validation has samples 0 .. validation_sequences - 1
  // The model's vocabulary: the deck's number, or the data's; for images, the number of classes.
  int64_t vocab = 0;
  std::vector<std::string> vocabulary;  // by number; empty unless tokens are words
  double unigram_entropy = -1.0;        // nats per token; negative if unknown (synthetic)
  std::vector<CorpusFile> files;        // files of the validation last; none for synthetic data
  std::string description;              // a line for people

  // Returns the hash of the content of all files; 0 where there are none.
  uint64_t hash() const;
};
// Opens the data of the deck. If tokens are words and `vocabulary` is not empty, it numbers the
// words and other words are refused. Otherwise the validation files continue the numbering of the
// data's words. Throws Error(file) or Error(usage) as Corpus and windows() do. Throws
// Error(usage) with the key's place if validation takes a part of the data and leaves no window on
// one side.
Dataset open_data(const Deck& deck, const std::vector<std::string>& vocabulary = {});

// Returns Dataset::vocab if the deck tells it without its data: a number in model.vocab, bytes,
// images. Returns nothing if model.vocab is auto and only files tell.
std::optional<int64_t> vocab_of(const Deck& deck);

// Collective. Opens the data on all ranks, which get equal datasets.
Dataset load_data(const Deck& deck, Communicator& world,
                  const std::vector<std::string>& vocabulary = {});
// Throws CollectiveError(file) with a rank and a file if ranks read different data.
void check_same_data(Communicator& world, const Dataset& data);

}  // namespace hidup
