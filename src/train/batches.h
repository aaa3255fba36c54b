// Which sequences a step trains on.
//
// Samples are numbered through the whole training from 0: step s (from 1) of a batch B takes
// samples (s - 1) * B .. s * B - 1. What a sample holds depends on its number and the seed only,
// so every rank fills its own part, and a restart needs no state but the step.
#pragma once

#include <cstdint>
#include <memory>

#include "core/random.h"
#include "train/tokens.h"

namespace hidup {

// A pseudo-random order of 0 .. size - 1, one index at a time and without memory: a Feistel
// network on the next power of four, whose results beyond `size` are mapped again until they
// are below it (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains",
// CT-RSA 2002). Fewer than four passes are expected.
class Permutation {
 public:
  Permutation(int64_t size, const RandomStream& stream);
  // A bijection of [0, size).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t size_;
  int half_bits_ = 0;
  RandomStream stream_;
};

class Batches {
 public:
  explicit Batches(int64_t sequence) : sequence_(sequence) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  virtual ~Batches() = default;

  int64_t sequence() const { return sequence_; }

  // Samples first_sample .. first_sample + count - 1. `tokens` and `targets` are
  // [count, sequence], row-major; the target of a token is the token that follows it.
  void fill(int64_t first_sample, int64_t count, int32_t* tokens, int32_t* targets) const;

 private:
  // The sequence + 1 tokens of a sample.
  virtual void read(int64_t sample, int32_t* out) const = 0;

  int64_t sequence_;
};

// Number of windows that a corpus is cut into: window w holds tokens w * sequence ..
// (w + 1) * sequence, the last of which is only a target (and the next window's first input).
// Throws Error(usage) if there is none.
int64_t windows(const CorpusSummary& corpus, int64_t sequence);

// Windows first .. first + count - 1 of a corpus.
struct WindowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// The windows, each once per epoch, in an order that differs from epoch to epoch.
std::unique_ptr<Batches> corpus_batches(std::shared_ptr<const Corpus> corpus, WindowRange range,
                                        int64_t sequence, uint64_t seed);

// The windows in the order of the text: sample i is window first + i % count.
std::unique_ptr<Batches> ordered_batches(std::shared_ptr<const Corpus> corpus, WindowRange range,
                                         int64_t sequence);

// Uniform random tokens below `vocab`, without end: token p of sample g is
// (word(p) * vocab) >> 32 of the stream (seed, "data/synthetic", g).
std::unique_ptr<Batches> synthetic_batches(int64_t vocab, int64_t sequence, uint64_t seed);

}  // namespace hidup
