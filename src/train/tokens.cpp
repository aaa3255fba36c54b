#include "train/tokens.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
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

constexpr int64_t kBlock = int64_t{1} << 20;  // bytes that are scanned at once
static_assert(kBlock % sizeof(uint64_t) == 0, "the hash takes eight bytes per step");

}  // namespace

// A regular file that stays open.
class DataFile {
 public:
  // O_NONBLOCK so that a pipe is refused instead of waited for.
  DataFile(std::string path, std::string key)
      : path_(std::move(path)),
        key_(std::move(key)),
        descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) {
      fail_to_read(errno);
    }
    struct stat status = {};
    const int error = fstat(descriptor_, &status) != 0 ? errno
                      : S_ISDIR(status.st_mode)        ? EISDIR
                                                       : 0;
    bytes_ = status.st_size;
    if (error != 0 || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      if (error != 0) {
        fail_to_read(error);
      }
      fail(ExitCode::file, "{}: {} is not a regular file", key_, path_);
    }
  }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile() { close(descriptor_); }

  const std::string& path() const { return path_; }
  const std::string& key() const { return key_; }
  int64_t bytes() const { return bytes_; }  // as it was opened

  void read(int64_t at, void* to, int64_t count) const {
    auto* out = static_cast<std::byte*>(to);
    while (count > 0) {
      const ssize_t got = pread(descriptor_, out, static_cast<size_t>(count), at);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        fail_to_read(errno);
      }
      if (got == 0) {
        fail(ExitCode::file,
             "{}: {} was cut short since the run opened it: it had {} bytes, and ends before byte "
             "{} now",
             key_, path_, bytes_, at + 1);
      }
      at += got;
      out += got;
      count -= got;
    }
  }

  // take(block) for the whole content, block by block.
  template <typename Take>
  void scan(const Take& take) const {
    std::string block;
    for (int64_t at = 0; at < bytes_; at += kBlock) {
      block.resize(static_cast<size_t>(std::min(kBlock, bytes_ - at)));
      read(at, block.data(), static_cast<int64_t>(block.size()));
      take(std::string_view(block));
    }
  }

 private:
  [[noreturn]] void fail_to_read(int error) const {
    fail(ExitCode::file, "{}: cannot read {}: {}", key_, path_, std::strerror(error));
  }

  std::string path_;
  std::string key_;  // of the deck, for messages
  int descriptor_;
  int64_t bytes_ = 0;
};

namespace {

// A file of the corpus takes a descriptor each: as many as the system lets a process have.
void allow_many_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Eight bytes per step, for corpora of many gigabytes; every step is a bijection of `hash`, so
// files that differ in one place never get the same hash. With the size, so that it matters
// where one file ends and the next begins.
uint64_t hash_of_content(const DataFile& file, uint64_t hash) {
  hash ^= static_cast<uint64_t>(file.bytes());
  file.scan([&hash](std::string_view content) {
    while (content.size() >= sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, content.data(), sizeof(word));
      hash = std::rotl(hash ^ word, 29) * 0x9E3779B97F4A7C15ULL;
      content.remove_prefix(sizeof(word));
    }
    hash = hash_of(content, hash);  // of the last block: the others are whole words
  });
  return hash;
}

// The number of tokens.
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

// Where tokens come from.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual void copy(int64_t first, int64_t count, int32_t* out) const = 0;
};

namespace {

// Tokens that a file holds as they are, from byte `start` on.
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

std::vector<std::string> expand_paths(const std::vector<std::string>& patterns,
                                      const std::string& key) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    if (pattern.find_first_of("*?[") == std::string::npos) {
      paths.push_back(pattern);
      continue;
    }
    glob_t found = {};
    errno = 0;
    const int status = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
    const int error = errno;
    std::vector<std::string> matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (status == GLOB_NOMATCH) {
      fail(ExitCode::file, "{}: no file matches {}", key, pattern);
    }
    if (status != 0) {
      fail(ExitCode::file, "{}: cannot look for {}: {}", key, pattern,
           std::strerror(status == GLOB_NOSPACE ? ENOMEM : error));
    }
    std::sort(matches.begin(), matches.end());
    paths.insert(paths.end(), matches.begin(), matches.end());
  }
  return paths;
}

Corpus::Corpus(const CorpusOptions& options) {
  allow_many_files();
  std::vector<std::shared_ptr<const DataFile>> files;
  for (const std::string& path : expand_paths(options.paths, options.key)) {
    files.push_back(std::make_shared<const DataFile>(path, options.key));
    summary_.content_hash = hash_of_content(*files.back(), summary_.content_hash);
    summary_.files.push_back({path, files.back()->bytes(), summary_.content_hash});
  }

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
    summarize(256);
    summary_.vocab = 256;
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
