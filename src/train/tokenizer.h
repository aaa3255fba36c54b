// Conversion between text for people and the tokens of a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/words.h"

namespace hidup {

struct DataDeck;

// Tokens by data.kind and data.tokenizer:
//   text, bytes        a token is a byte
//   text, words        words as Corpus splits a file; "<eos>" is a line end
//   tokens, synthetic  numbers between white space
class Tokenizer {
 public:
  // `vocab`: the model's; tokens are in [0, vocab). `words`: in order of their numbers; empty
  // unless tokens are words. Throws Error(usage) if tokens are words and there are none.
  Tokenizer(const DataDeck& data, int64_t vocab, const std::vector<std::string>& words);

  // Returns the tokens of a text, without an added line end. A word outside of the vocabulary
  // becomes "<unk>" if the vocabulary has that. Throws Error(usage) for other such words, and for
  // text that is no token of the model.
  std::vector<int32_t> encode(std::string_view text) const;

  // Returns the text of tokens. A blank joins words and numbers, except at the ends of lines.
  // Tokens without a byte or word, if the model's vocabulary exceeds the data's, become U+FFFD.
  std::string decode(std::span<const int32_t> tokens) const;

 private:
  enum class Unit { byte, word, number };

  int32_t number_of(std::string_view word) const;

  Unit unit_;
  int64_t vocab_;
  Vocabulary vocabulary_;
  std::vector<std::string> words_;
};

}  // namespace hidup
