// The sequences of each step.
//
// Samples are numbered from 0 through the whole training: step s (from 1) of a batch B takes
// samples (s - 1) * B .. s * B - 1. The content of a sample depends on its number and the seed
// only, so every rank fills its own part, and a restart needs no state but the step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/random.h"
#include "train/tokens.h"

namespace hidup {

// A pseudo-random permutation of 0 .. size - 1, computed index by index without memory: a Feistel
// network on the next power of four. It maps results beyond `size` again until they are below it
// (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Fewer
// than four iterations are expected.
class Permutation {
 public:
  Permutation(int64_t size, const RandomStream& stream);
  // Maps [0, size) onto itself, one to one.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t size_;
  int half_bits_ = 0;
  RandomStream stream_;
};

// Samples, row-major. Vectors for which the data has no values are empty.
struct Samples {
  std::vector<int32_t> tokens;   // [samples, sequence]
  std::vector<float> images;     // [samples, patches, values of a patch]
  std::vector<int32_t> targets;  // tokens: [samples, sequence]; images: [samples]
};

class Batches {
 public:
  explicit Batches(int64_t targets) : targets_(targets) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  virtual ~Batches() = default;

  // Returns the targets of a sample.
  int64_t targets() const { return targets_; }

  // Returns samples first .. first + count - 1; the target of a token is the next token.
  virtual Samples read(int64_t first, int64_t count) const = 0;

 private:
  int64_t targets_;
};

// Returns the number of windows in a corpus: window w holds tokens w * sequence .. (w + 1) *
// sequence, the last of which is only a target (and the next window's first input). Throws
// Error(usage) if it is 0.
int64_t windows(const CorpusSummary& corpus, int64_t sequence);

// Windows first .. first + count - 1 of a corpus.
struct WindowRange {
  int64_t first = 0;
  int64_t count = 0;
};

// Maps samples to windows: each window once per epoch, in an order that differs from epoch to
// epoch, or always in their own order without a seed.
class WindowOrder {
 public:
  WindowOrder(WindowRange range, std::optional<uint64_t> seed) : range_(range), seed_(seed) {}
  int64_t window(int64_t sample) const;

 private:
  WindowRange range_;
  std::optional<uint64_t> seed_;
};

// Returns batches of the windows, each once per epoch, in an order that differs between epochs.
std::unique_ptr<Batches> corpus_batches(std::shared_ptr<const Corpus> corpus, WindowRange range,
                                        int64_t sequence, uint64_t seed);

// Returns batches of the windows in text order: sample i is window first + i % count.
std::unique_ptr<Batches> ordered_batches(std::shared_ptr<const Corpus> corpus, WindowRange range,
                                         int64_t sequence);

// Returns endless uniform random tokens below `vocab`: token p of sample g is
// (word(p) * vocab) >> 32 of the stream (seed, "data/synthetic", g).
std::unique_ptr<Batches> synthetic_batches(int64_t vocab, int64_t sequence, uint64_t seed);

}  // namespace hidup
