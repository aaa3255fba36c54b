// A reader of short pieces of a file that follow each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/open_file.h"

namespace hidup {

// Reads larger pieces that also hold the bytes between the short ones.
class StretchReader {
 public:
  // The file is not read beyond `end`.
  StretchReader(const OpenFile& file, int64_t end) : file_(file), end_(end) {}

  void read(int64_t at, std::span<std::byte> to) {
    const auto count = static_cast<int64_t>(to.size());
    if (count >= kStretchBytes) {
      file_.read(at, to);
      return;
    }
    if (at < begin_ || at + count > begin_ + static_cast<int64_t>(stretch_.size())) {
      begin_ = at;
      stretch_.resize(static_cast<size_t>(std::min(kStretchBytes, end_ - at)));
      file_.read(begin_, stretch_);
    }
    std::copy_n(stretch_.begin() + (at - begin_), count, to.begin());
  }

 private:
  static constexpr int64_t kStretchBytes = int64_t{128} << 10;

  const OpenFile& file_;
  int64_t end_;
  std::vector<std::byte> stretch_;
  int64_t begin_ = 0;
};

}  // namespace hidup
