// Text that a person writes or reads, as the tokens of a model and back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/words.h"

namespace hidup {

struct DataDeck;

//   text, bytes        a token is a byte
//   text, words        as Corpus reads a file; "<eos>" is a line end
//   tokens, synthetic  numbers between white space
class Tokenizer {
 public:
  // `vocab`: of the model, tokens are in [0, vocab). `words`: by number; empty unless tokens are
  // words. Throws Error(usage) where tokens are words and there are none.
  Tokenizer(const DataDeck& data, int64_t vocab, const std::vector<std::string>& words);

  // No line end is added to the text. A word that is not in the vocabulary is "<unk>" where that
  // is in it. Throws Error(usage) for another one, and for what is no token of the model.
  std::vector<int32_t> encode(std::string_view text) const;

  // Words and numbers are joined by a blank, except at the ends of lines. Tokens without a byte or
  // word, which a model with a larger vocabulary than its data has, become U+FFFD.
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
