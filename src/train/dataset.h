// From the data section of the deck to samples.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "deck/deck.h"
#include "train/batches.h"

namespace hidup {

// The data of a run, opened.
struct Dataset {
  std::unique_ptr<Batches> batches;
  std::unique_ptr<Batches> validation;  // in the order of the files; null: there is none
  int64_t validation_sequences = 0;     // its samples: 0 .. validation_sequences - 1
  // Of the model: the deck's number, or what the data needs. Of images: their classes.
  int64_t vocab = 0;
  std::vector<std::string> vocabulary;  // by number; empty unless tokens are words
  double unigram_entropy = -1.0;        // nats per token; negative where there is none (synthetic)
  std::vector<CorpusFile> files;  // those of the validation last; none where data is synthetic
  std::string description;        // a line for people

  // Of all that the files hold; 0 where there are none.
  uint64_t hash() const;
};
// Where tokens are words and `vocabulary` is not empty, they are numbered by it, and others are
// refused. Otherwise those of the validation's files go on where those of the data end. Throws
// Error(file) or Error(usage) as Corpus and windows() do, and where a part of the data for
// validation leaves no window on one side, with the key's place.
Dataset open_data(const Deck& deck, const std::vector<std::string>& vocabulary = {});

// Dataset::vocab where the deck says it without its data: a number in model.vocab, bytes, images.
// Nothing where model.vocab is auto and only files say what it is.
std::optional<int64_t> vocab_of(const Deck& deck);

// The same on all ranks, which open it together.
Dataset load_data(const Deck& deck, Communicator& world,
                  const std::vector<std::string>& vocabulary = {});
// Throws CollectiveError(file) naming a rank and a file where ranks read different data.
void check_same_data(Communicator& world, const Dataset& data);

}  // namespace hidup
