#include "train/batches.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/units.h"

namespace hidup {
namespace {

// Four rounds make a good cipher of a large domain (Luby and Rackoff 1988); a domain of a few
// windows needs more rounds to reach nearly all permutations.
constexpr uint64_t kRounds = 8;

class TokenBatches : public Batches {
 public:
  explicit TokenBatches(int64_t sequence) : Batches(sequence) {}

  Samples read(int64_t first, int64_t count) const override {
    const int64_t sequence = targets();
    Samples samples;
    samples.tokens.resize(static_cast<size_t>(count * sequence));
    samples.targets.resize(samples.tokens.size());
    std::vector<int32_t> window(static_cast<size_t>(sequence) + 1);
    for (int64_t i = 0; i < count; ++i) {
      read_sample(first + i, window.data());
      std::copy_n(window.begin(), sequence, samples.tokens.begin() + i * sequence);
      std::copy_n(window.begin() + 1, sequence, samples.targets.begin() + i * sequence);
    }
    return samples;
  }

 private:
  // Reads the sequence + 1 tokens of a sample.
  virtual void read_sample(int64_t sample, int32_t* out) const = 0;
};

class CorpusBatches final : public TokenBatches {
 public:
  CorpusBatches(std::shared_ptr<const Corpus> corpus, WindowRange range, int64_t sequence,
                std::optional<uint64_t> seed)
      : TokenBatches(sequence), corpus_(std::move(corpus)), order_(range, seed) {
    const int64_t all = windows(corpus_->summary(), sequence);
    check(range.first >= 0 && range.count > 0 && range.first + range.count <= all,
          "windows {} to {} of a corpus of {}", range.first, range.first + range.count, all);
  }

 private:
  void read_sample(int64_t sample, int32_t* out) const override {
    corpus_->copy(order_.window(sample) * targets(), targets() + 1, out);
  }

  std::shared_ptr<const Corpus> corpus_;
  WindowOrder order_;
};

class SyntheticBatches final : public TokenBatches {
 public:
  SyntheticBatches(int64_t vocab, int64_t sequence, uint64_t seed)
      : TokenBatches(sequence), vocab_(static_cast<uint64_t>(vocab)), seed_(seed) {}

 private:
  void read_sample(int64_t sample, int32_t* out) const override {
    const RandomStream stream =
        random_stream(seed_, "data/synthetic", static_cast<uint64_t>(sample));
    for (int64_t position = 0; position <= targets(); ++position) {
      const uint64_t word = stream.word(static_cast<uint64_t>(position));
      out[position] = static_cast<int32_t>((word * vocab_) >> 32);
    }
  }

  uint64_t vocab_;
  uint64_t seed_;
};

}  // namespace

Permutation::Permutation(int64_t size, const RandomStream& stream)
    : size_(static_cast<uint64_t>(size)), stream_(stream) {
  check(size > 0 && size <= int64_t{1} << 62, "a permutation of {} elements", size);
  while (uint64_t{1} << (2 * half_bits_) < size_) {
    ++half_bits_;
  }
}

int64_t Permutation::operator()(int64_t index) const {
  check(index >= 0 && static_cast<uint64_t>(index) < size_, "index {} of a permutation of {}",
        index, size_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = stream_.block((round << 32) | right).word[0] & mask;
      left = std::exchange(right, left ^ mixed);
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

int64_t WindowOrder::window(int64_t sample) const {
  const int64_t index = sample % range_.count;
  if (!seed_) {
    return range_.first + index;
  }
  const auto epoch = static_cast<uint64_t>(sample / range_.count);
  return range_.first +
         Permutation(range_.count, random_stream(*seed_, "data/order", epoch))(index);
}

int64_t windows(const CorpusSummary& corpus, int64_t sequence) {
  if (corpus.tokens < sequence + 1) {
    fail(ExitCode::usage,
         "the data has {} tokens, but one sequence takes model.sequence + 1 = {} + 1 = {}",
         format_count(corpus.tokens), sequence, sequence + 1);
  }
  return (corpus.tokens - 1) / sequence;
}

std::unique_ptr<Batches> corpus_batches(std::shared_ptr<const Corpus> corpus, WindowRange range,
                                        int64_t sequence, uint64_t seed) {
  return std::make_unique<CorpusBatches>(std::move(corpus), range, sequence, seed);
}

std::unique_ptr<Batches> ordered_batches(std::shared_ptr<const Corpus> corpus, WindowRange range,
                                         int64_t sequence) {
  return std::make_unique<CorpusBatches>(std::move(corpus), range, sequence, std::nullopt);
}

std::unique_ptr<Batches> synthetic_batches(int64_t vocab, int64_t sequence, uint64_t seed) {
  return std::make_unique<SyntheticBatches>(vocab, sequence, seed);
}

}  // namespace hidup
