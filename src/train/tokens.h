// Corpora: files of text or of tokens, as one sequence of token indices.
//
// Validation data is the last windows of the data, or files of its own, in the order of the text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/data_file.h"
#include "train/words.h"

namespace hidup {

inline constexpr int64_t kByteTokens = 256;  // vocabulary size if tokens are bytes

struct CorpusOptions {
  std::string kind;                 // "text" or "tokens"
  std::vector<std::string> paths;   // files or glob patterns
  std::string tokenizer = "bytes";  // for text: "bytes" or "words"
  std::string key = "data.path";    // the deck's key, for messages
  Vocabulary vocabulary = {};       // known words; new ones continue the numbers
  bool is_complete = false;         // the vocabulary is complete: new words are refused
};

class TokenSource;  // defined in tokens.cpp

struct CorpusSummary {
  std::vector<CorpusFile> files;
  int64_t tokens = 0;
  int64_t distinct = 0;          // number of different tokens
  int64_t vocab = 0;             // least vocabulary of a model: tokens are in [0, vocab)
  double unigram_entropy = 0.0;  // nats per token: the loss of the best model without context
  uint64_t content_hash = 0;     // of every byte of every file; ranks with equal data agree
};

// The tokens of all files, one file after the other.
//
//   text, bytes   a token is a byte, the vocabulary always 256
//   text, words   words between ASCII white space, with "<eos>" at the end of every line, blank
//                 lines too, as PyTorch's word_language_model example reads WikiText; numbered
//                 in order of first appearance
//   tokens        llm.c's format (dev/data/data_common.py): a header of 256 int32 (20240520,
//                 version 1, number of tokens, unused), then uint16 tokens, little-endian
//
// Files are not loaded: they are scanned once for the summary, stay open, and are read when tokens
// are requested; only words occupy memory (4 bytes each). So a run does not notice if a file is
// deleted, replaced or appended to. Throws Error(file) with path and cause for files that cannot be
// read, have the wrong format or were cut short, and for a corpus without tokens; Error(usage) for
// words that a complete vocabulary lacks.
class Corpus {
 public:
  explicit Corpus(const CorpusOptions& options);

  const CorpusSummary& summary() const { return summary_; }

  // Returns all numbered words; empty unless tokens are words.
  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Throws Error(usage) if the corpus has tokens that a vocabulary of `model_vocab` lacks.
  void check_vocab(int64_t model_vocab) const;

  // Copies tokens first .. first + count - 1 of the corpus to `out`. Throws Error(file).
  void copy(int64_t first, int64_t count, int32_t* out) const;

 private:
  struct Segment {
    int64_t first;  // index of its first token in the corpus
    int64_t count;
    std::shared_ptr<const TokenSource> source;
  };

  void read_words(const CorpusOptions& options,
                  const std::vector<std::shared_ptr<const DataFile>>& files);
  void append(std::shared_ptr<const TokenSource> source, int64_t count);
  // Counts the tokens. All are below `values`.
  void summarize(int64_t values);

  std::vector<Segment> segments_;
  CorpusSummary summary_;
  Vocabulary vocabulary_;
  std::string vocab_reason_;
};

}  // namespace hidup
