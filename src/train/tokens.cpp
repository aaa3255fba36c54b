#include "train/tokens.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "core/units.h"

namespace hidup {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they are");

constexpr int32_t kTokenMagic = 20240520;
constexpr int32_t kTokenVersion = 1;
constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);

constexpr int64_t kBlock = int64_t{1} << 20;  // tokens per block when counting

// Returns the number of tokens.
int64_t check_token_file(const DataFile& file) {
  if (file.bytes() < kHeaderBytes) {
    fail(ExitCode::file,
         "{}: {} has {} bytes, less than the header of {} bytes that a token file starts with",
         file.key(), file.path(), file.bytes(), kHeaderBytes);
  }
  std::array<int32_t, 3> header = {};
  file.read(0, header.data(), sizeof(header));
  const auto [magic, version, count] = header;
  if (magic != kTokenMagic) {
    fail(ExitCode::file, "{}: {} is not a token file: it starts with the number {}, expected {}",
         file.key(), file.path(), magic, kTokenMagic);
  }
  if (version != kTokenVersion) {
    fail(ExitCode::file, "{}: {} is a token file of version {}, expected version {}", file.key(),
         file.path(), version, kTokenVersion);
  }
  const int64_t expected = kHeaderBytes + int64_t{2} * count;
  if (count < 0 || file.bytes() != expected) {
    fail(ExitCode::file,
         "{}: {} should hold {} tokens in {} + 2 * {} = {} bytes as its header says, but has {} "
         "bytes",
         file.key(), file.path(), count, kHeaderBytes, count, expected, file.bytes());
  }
  return count;
}

}  // namespace

// A source of tokens.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual void copy(int64_t first, int64_t count, int32_t* out) const = 0;
};

namespace {

// Tokens that a file stores as integers, from byte `start` on.
template <typename Token>
class FileTokens final : public TokenSource {
 public:
  FileTokens(std::shared_ptr<const DataFile> file, int64_t start)
      : file_(std::move(file)), start_(start) {}

  void copy(int64_t first, int64_t count, int32_t* out) const override {
    constexpr auto kWidth = static_cast<int64_t>(sizeof(Token));
    std::vector<Token> tokens(static_cast<size_t>(count));
    file_->read(start_ + first * kWidth, tokens.data(), count * kWidth);
    std::ranges::copy(tokens, out);
  }

 private:
  std::shared_ptr<const DataFile> file_;
  int64_t start_;
};

class KeptTokens final : public TokenSource {
 public:
  explicit KeptTokens(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  void copy(int64_t first, int64_t count, int32_t* out) const override {
    std::copy_n(tokens_.begin() + first, count, out);
  }

 private:
  std::vector<int32_t> tokens_;
};

}  // namespace

Corpus::Corpus(const CorpusOptions& options) {
  const std::vector<std::shared_ptr<const DataFile>> files =
      open_data_files(options.paths, options.key, summary_.files);
  summary_.content_hash = summary_.files.empty() ? 0 : summary_.files.back().hash;

  if (options.kind == "tokens") {
    for (const auto& file : files) {
      const int64_t count = check_token_file(*file);
      append(std::make_shared<FileTokens<uint16_t>>(file, kHeaderBytes), count);
    }
    summarize(1 << 16);
    vocab_reason_ = fmt::format("its largest token is {}", summary_.vocab - 1);
  } else if (options.kind == "text" && options.tokenizer == "words") {
    read_words(options, files);
  } else {
    check(options.kind == "text" && options.tokenizer == "bytes",
          "no reader for data of kind {} with tokenizer {}", options.kind, options.tokenizer);
    for (const auto& file : files) {
      append(std::make_shared<FileTokens<uint8_t>>(file, 0), file->bytes());
    }
    summarize(kByteTokens);
    summary_.vocab = kByteTokens;
    vocab_reason_ = "its tokens are bytes";
  }
  if (summary_.tokens == 0) {
    fail(ExitCode::file, "{}: {} has no tokens", options.key, fmt::join(options.paths, ", "));
  }
}

void Corpus::read_words(const CorpusOptions& options,
                        const std::vector<std::shared_ptr<const DataFile>>& files) {
  vocabulary_ = options.vocabulary;
  std::vector<int32_t> tokens;
  Vocabulary unknown;
  const auto take = [&](std::string_view word) {
    tokens.push_back(options.is_complete ? vocabulary_.find(word) : vocabulary_.add(word));
    if (tokens.back() < 0) {
      unknown.add(word);
    }
  };
  WordSplitter splitter;
  for (const auto& file : files) {
    file->scan([&](std::string_view block) { splitter.feed(block, take); });
    splitter.end_file(take);
  }
  if (unknown.size() > 0) {
    fail(ExitCode::usage,
         "{}: {} word(s) are not among the {} words of the model's vocabulary, the first of them "
         "\"{}\"",
         options.key, format_count(unknown.size()), format_count(vocabulary_.size()),
         shown(unknown.words().front()));
  }
  const auto count = static_cast<int64_t>(tokens.size());
  append(std::make_shared<KeptTokens>(std::move(tokens)), count);
  summarize(vocabulary_.size());
  summary_.vocab = vocabulary_.size();
  vocab_reason_ = fmt::format("it has {} distinct words", format_count(summary_.vocab));
}

void Corpus::append(std::shared_ptr<const TokenSource> source, int64_t count) {
  if (count > 0) {
    segments_.push_back({summary_.tokens, count, std::move(source)});
    summary_.tokens += count;
  }
}

void Corpus::summarize(int64_t values) {
  std::vector<int64_t> counts(static_cast<size_t>(values));
  std::vector<int32_t> tokens;
  for (const Segment& segment : segments_) {
    for (int64_t at = 0; at < segment.count; at += kBlock) {
      tokens.resize(static_cast<size_t>(std::min(kBlock, segment.count - at)));
      segment.source->copy(at, static_cast<int64_t>(tokens.size()), tokens.data());
      for (const int32_t token : tokens) {
        ++counts[static_cast<size_t>(token)];
      }
    }
  }
  for (int64_t token = 0; token < values; ++token) {
    const int64_t count = counts[static_cast<size_t>(token)];
    if (count > 0) {
      const double share = static_cast<double>(count) / static_cast<double>(summary_.tokens);
      summary_.unigram_entropy -= share * std::log(share);
      summary_.distinct += 1;
      summary_.vocab = token + 1;
    }
  }
}

void Corpus::check_vocab(int64_t model_vocab) const {
  if (model_vocab < summary_.vocab) {
    fail(ExitCode::usage, "model.vocab is {}, but the data needs {} or more: {}", model_vocab,
         summary_.vocab, vocab_reason_);
  }
}

void Corpus::copy(int64_t first, int64_t count, int32_t* out) const {
  check(first >= 0 && count >= 0 && first + count <= summary_.tokens,
        "tokens {} to {} of a corpus of {}", first, first + count, summary_.tokens);
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), first,
                                  [](int64_t at, const Segment& s) { return at < s.first; });
  for (--segment; count > 0; ++segment) {
    const int64_t skipped = first - segment->first;
    const int64_t copied = std::min(segment->count - skipped, count);
    segment->source->copy(skipped, copied, out);
    first += copied;
    count -= copied;
    out += copied;
  }
}

}  // namespace hidup
