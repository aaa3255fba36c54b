// Which sequences a step trains on.
//
// Samples are numbered through the whole training from 0: step s (from 1) of a batch B takes
// samples (s - 1) * B .. s * B - 1. What a sample holds depends on its number and the seed only,
// so every rank fills its own part, and a restart needs no state but the step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

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

// Row-major; what the data has not is empty.
struct Samples {
  std::vector<int32_t> tokens;   // [samples, sequence]
  std::vector<float> images;     // [samples, patches, values of a patch]
  std::vector<int32_t> targets;  // of tokens [samples, sequence], of images [samples]
};

class Batches {
 public:
  explicit Batches(int64_t targets) : targets_(targets) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  virtual ~Batches() = default;

  // Of a sample.
  int64_t targets() const { return targets_; }

  // Samples first .. first + count - 1; the target of a token is the token that follows it.
  virtual Samples read(int64_t first, int64_t count) const = 0;

 private:
  int64_t targets_;
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

// Which window a sample is: each once per epoch, in an order that differs from epoch to epoch;
// without a seed always in their own order.
class WindowOrder {
 public:
  WindowOrder(WindowRange range, std::optional<uint64_t> seed) : range_(range), seed_(seed) {}
  int64_t window(int64_t sample) const;

 private:
  WindowRange range_;
  std::optional<uint64_t> seed_;
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
