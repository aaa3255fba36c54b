#include "train/tokens.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_map>
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
constexpr std::string_view kEndOfLine = "<eos>";

struct MappedFile {
  std::string path;
  int64_t bytes = 0;
  std::shared_ptr<const void> data;  // null for an empty file

  std::string_view text() const {
    return {static_cast<const char*>(data.get()), static_cast<size_t>(bytes)};
  }
};

[[noreturn]] void fail_to_read(const std::string& path, int error) {
  fail(ExitCode::file, "data.path: cannot read {}: {}", path, std::strerror(error));
}

class Descriptor {
 public:
  // O_NONBLOCK so that a pipe is refused instead of waited for.
  explicit Descriptor(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) {
      fail_to_read(path, errno);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(descriptor_); }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

MappedFile map_file(const std::string& path) {
  const Descriptor file(path);
  struct stat status = {};
  if (fstat(file.get(), &status) != 0) {
    fail_to_read(path, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    fail_to_read(path, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ExitCode::file, "data.path: {} is not a regular file", path);
  }
  if (status.st_size == 0) {
    return {path, 0, nullptr};
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    fail_to_read(path, errno);
  }
  return {path, status.st_size, std::shared_ptr<const void>(data, [size](const void* mapped) {
            munmap(const_cast<void*>(mapped), size);
          })};
}

// Eight bytes per step, for corpora of many gigabytes; every step is a bijection of `hash`, so
// files that differ in one place never get the same hash. With the size, so that it matters
// where one file ends and the next begins.
uint64_t hash_of_content(std::string_view content, uint64_t hash) {
  hash ^= content.size();
  while (content.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, content.data(), sizeof(word));
    hash = std::rotl(hash ^ word, 29) * 0x9E3779B97F4A7C15ULL;
    content.remove_prefix(sizeof(word));
  }
  return hash_of(content, hash);
}

std::span<const uint16_t> tokens_of(const MappedFile& file) {
  if (file.bytes < kHeaderBytes) {
    fail(ExitCode::file,
         "data.path: {} has {} bytes, less than the header of {} bytes that a token file starts "
         "with",
         file.path, file.bytes, kHeaderBytes);
  }
  std::array<int32_t, 3> header = {};
  std::memcpy(header.data(), file.data.get(), sizeof(header));
  const auto [magic, version, count] = header;
  if (magic != kTokenMagic) {
    fail(ExitCode::file,
         "data.path: {} is not a token file: it starts with the number {}, expected {}", file.path,
         magic, kTokenMagic);
  }
  if (version != kTokenVersion) {
    fail(ExitCode::file, "data.path: {} is a token file of version {}, expected version {}",
         file.path, version, kTokenVersion);
  }
  const int64_t expected = kHeaderBytes + int64_t{2} * count;
  if (count < 0 || file.bytes != expected) {
    fail(ExitCode::file,
         "data.path: {} should hold {} tokens in {} + 2 * {} = {} bytes as its header says, but "
         "has {} bytes",
         file.path, count, kHeaderBytes, count, expected, file.bytes);
  }
  const auto* first = static_cast<const std::byte*>(file.data.get()) + kHeaderBytes;
  return {reinterpret_cast<const uint16_t*>(first), static_cast<size_t>(count)};
}

class WordTokenizer {
 public:
  // `text` must outlive the tokenizer.
  void add(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
      if (text[at] == '\n') {
        push(kEndOfLine);
        ++at;
      } else if (is_space(text[at])) {
        ++at;
      } else {
        const size_t start = at;
        while (at < text.size() && !is_space(text[at])) {
          ++at;
        }
        push(text.substr(start, at - start));
      }
    }
    if (!text.empty() && text.back() != '\n') {
      push(kEndOfLine);
    }
  }

  int64_t vocab() const { return static_cast<int64_t>(index_.size()); }
  std::vector<int32_t> take_tokens() { return std::move(tokens_); }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  void push(std::string_view word) {
    tokens_.push_back(index_.try_emplace(word, static_cast<int32_t>(index_.size())).first->second);
  }

  std::unordered_map<std::string_view, int32_t> index_;
  std::vector<int32_t> tokens_;
};

}  // namespace

std::vector<std::string> expand_paths(const std::vector<std::string>& patterns) {
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
      fail(ExitCode::file, "data.path: no file matches {}", pattern);
    }
    if (status != 0) {
      fail(ExitCode::file, "data.path: cannot look for {}: {}", pattern,
           std::strerror(status == GLOB_NOSPACE ? ENOMEM : error));
    }
    std::sort(matches.begin(), matches.end());
    paths.insert(paths.end(), matches.begin(), matches.end());
  }
  return paths;
}

Corpus::Corpus(const CorpusOptions& options) {
  std::vector<MappedFile> files;
  for (const std::string& path : expand_paths(options.paths)) {
    files.push_back(map_file(path));
    summary_.content_hash = hash_of_content(files.back().text(), summary_.content_hash);
  }
  summary_.files = static_cast<int64_t>(files.size());

  if (options.kind == "tokens") {
    for (const MappedFile& file : files) {
      append(tokens_of(file), file.data);
    }
    summarize(1 << 16);
    vocab_reason_ = fmt::format("its largest token is {}", summary_.vocab - 1);
  } else if (options.kind == "text" && options.tokenizer == "words") {
    WordTokenizer tokenizer;
    for (const MappedFile& file : files) {
      tokenizer.add(file.text());
    }
    auto words = std::make_shared<const std::vector<int32_t>>(tokenizer.take_tokens());
    append(std::span(*words), words);
    summarize(tokenizer.vocab());
    vocab_reason_ = fmt::format("it has {} distinct words", format_count(summary_.vocab));
  } else {
    check(options.kind == "text" && options.tokenizer == "bytes",
          "no reader for data of kind {} with tokenizer {}", options.kind, options.tokenizer);
    for (const MappedFile& file : files) {
      append(std::span(static_cast<const uint8_t*>(file.data.get()), file.text().size()),
             file.data);
    }
    summarize(256);
    summary_.vocab = 256;
    vocab_reason_ = "its tokens are bytes";
  }
  if (summary_.tokens == 0) {
    fail(ExitCode::file, "data.path: {} has no tokens", fmt::join(options.paths, ", "));
  }
}

void Corpus::append(Elements tokens, std::shared_ptr<const void> storage) {
  const auto size = std::visit([](const auto& span) { return span.size(); }, tokens);
  if (size > 0) {
    segments_.push_back({summary_.tokens, tokens, std::move(storage)});
    summary_.tokens += static_cast<int64_t>(size);
  }
}

// Counts the tokens, which are below `values`.
void Corpus::summarize(int64_t values) {
  std::vector<int64_t> counts(static_cast<size_t>(values));
  for (const Segment& segment : segments_) {
    std::visit(
        [&counts](const auto& tokens) {
          for (const auto token : tokens) {
            ++counts[static_cast<size_t>(token)];
          }
        },
        segment.tokens);
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
    const int64_t copied = std::visit(
        [&](const auto& tokens) {
          const auto part = tokens.subspan(static_cast<size_t>(first - segment->first));
          const auto size = std::min(part.size(), static_cast<size_t>(count));
          std::copy_n(part.begin(), size, out);
          return static_cast<int64_t>(size);
        },
        segment->tokens);
    first += copied;
    count -= copied;
    out += copied;
  }
}

}  // namespace hidup
