#include "train/data_file.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace hidup {

// Uses O_NONBLOCK to refuse a pipe instead of waiting for it.
DataFile::DataFile(std::string path, std::string key)
    : path_(std::move(path)),
      key_(std::move(key)),
      descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) {
    fail_to_read(errno);
  }
  struct stat status = {};
  const int error = fstat(descriptor_, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  bytes_ = status.st_size;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    if (error != 0) {
      fail_to_read(error);
    }
    fail(ExitCode::file, "{}: {} is not a regular file", key_, path_);
  }
}

DataFile::~DataFile() {
  close(descriptor_);
}

void DataFile::read(int64_t at, void* to, int64_t count) const {
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

void DataFile::fail_to_read(int error) const {
  fail(ExitCode::file, "{}: cannot read {}: {}", key_, path_, std::strerror(error));
}

namespace {

// Raises the limit of open files to the allowed maximum: every file of the corpus stays open.
void allow_many_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Hashes eight bytes per step, for corpora of many gigabytes. Every step is a bijection of `hash`,
// so files that differ in one place never get the same hash. Includes the size, so that the
// boundaries between files matter.
uint64_t hash_of_content(const DataFile& file, uint64_t hash) {
  hash ^= static_cast<uint64_t>(file.bytes());
  file.scan([&hash](std::string_view content) {
    while (content.size() >= sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, content.data(), sizeof(word));
      hash = std::rotl(hash ^ word, 29) * 0x9E3779B97F4A7C15ULL;
      content.remove_prefix(sizeof(word));
    }
    hash = hash_of(content, hash);  // of the last block: the other blocks are whole words
  });
  return hash;
}

}  // namespace

std::vector<std::string> matching_paths(const std::string& pattern, const std::string& key) {
  if (pattern.find_first_of("*?[") == std::string::npos) {
    return {pattern};
  }
  glob_t found = {};
  errno = 0;
  const int status = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const int error = status == GLOB_NOSPACE ? ENOMEM : errno;
  std::vector<std::string> matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  const bool no_folder = status == GLOB_ABORTED && error == ENOENT;
  if (status != 0 && status != GLOB_NOMATCH && !no_folder) {
    fail(ExitCode::file, "{}: cannot look for {}: {}", key, pattern, std::strerror(error));
  }
  std::ranges::sort(matches);
  return matches;
}

std::string first_missing(const std::vector<std::string>& patterns, const std::string& key) {
  const auto is_missing = [&](const std::string& pattern) {
    const std::vector<std::string> paths = matching_paths(pattern, key);
    return paths.empty() || (access(paths[0].c_str(), F_OK) != 0 && errno == ENOENT);
  };
  const auto missing = std::ranges::find_if(patterns, is_missing);
  return missing == patterns.end() ? "" : *missing;
}

std::vector<std::string> expand_paths(const std::vector<std::string>& patterns,
                                      const std::string& key) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> matches = matching_paths(pattern, key);
    if (matches.empty()) {
      fail(ExitCode::file, "{}: no file matches {}", key, pattern);
    }
    paths.insert(paths.end(), matches.begin(), matches.end());
  }
  return paths;
}

std::vector<std::shared_ptr<const DataFile>> open_data_files(
    const std::vector<std::string>& patterns, const std::string& key,
    std::vector<CorpusFile>& files) {
  allow_many_files();
  std::vector<std::shared_ptr<const DataFile>> opened;
  uint64_t hash = 0;
  for (const std::string& path : expand_paths(patterns, key)) {
    opened.push_back(std::make_shared<const DataFile>(path, key));
    hash = hash_of_content(*opened.back(), hash);
    files.push_back({path, opened.back()->bytes(), hash});
  }
  return opened;
}

}  // namespace hidup
