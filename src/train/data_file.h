// Data files: found by patterns, open for the whole run, and identified by a hash of their content.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hidup {

struct CorpusFile {
  std::string path;
  int64_t bytes = 0;
  uint64_t hash = 0;  // of the contents of this file and those before it
};

// A regular file that stays open.
class DataFile {
 public:
  // `key`: the deck's key, for messages. Throws Error(file) with path and cause.
  DataFile(std::string path, std::string key);
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  const std::string& key() const { return key_; }
  int64_t bytes() const { return bytes_; }  // at opening

  // Reads bytes at .. at + count - 1. Throws Error(file), also if the file was cut short.
  void read(int64_t at, void* to, int64_t count) const;

  // Calls take(block) for the content in order. All blocks but the last have kBlock bytes.
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
  static constexpr int64_t kBlock = int64_t{1} << 20;
  static_assert(kBlock % sizeof(uint64_t) == 0, "the hash takes eight bytes per step");

  [[noreturn]] void fail_to_read(int error) const;

  std::string path_;
  std::string key_;
  int descriptor_;
  int64_t bytes_ = 0;
};

// Returns the path itself, or the files that a glob(3) pattern matches, in byte order whatever the
// locale; nothing if there are none. Throws Error(file) if the search fails. `key`: for messages.
std::vector<std::string> matching_paths(const std::string& pattern, const std::string& key);

// Returns the first pattern without a file, or "" if each has one.
std::string first_missing(const std::vector<std::string>& patterns, const std::string& key);

// Returns the files that matching_paths() gives for `patterns`, in the order of the patterns.
// Throws Error(file) for a pattern without matches.
std::vector<std::string> expand_paths(const std::vector<std::string>& patterns,
                                      const std::string& key = "data.path");

// Opens all files and appends their descriptions to `files`.
std::vector<std::shared_ptr<const DataFile>> open_data_files(
    const std::vector<std::string>& patterns, const std::string& key,
    std::vector<CorpusFile>& files);

}  // namespace hidup
