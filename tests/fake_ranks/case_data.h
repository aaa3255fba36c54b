// Data of the collective cases, and the device that holds them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "device/device.h"

namespace hidup {

// Returns the options given to set_case_device().
const DeviceOptions& case_device();

using Counts = std::vector<int64_t>;

class OwnStream {
 public:
  Stream& operator*() { return *stream_; }
  Stream* operator->() { return stream_.get(); }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_ = make_device(case_device());
  std::unique_ptr<Stream> stream_ = device_->create_stream("comm", 1);
};

// An array in the device's memory.
template <typename T>
class Array {
 public:
  Array(OwnStream& stream, const std::vector<T>& values)
      : stream_(stream),
        size_(values.size()),
        buffer_(stream.device().allocate(static_cast<int64_t>(size_ * sizeof(T)))) {
    set(values);
  }

  T* data() { return reinterpret_cast<T*>(buffer_->data()); }
  void set(const std::vector<T>& values) {
    stream_->copy(data(), values.data(), bytes());
    stream_->synchronize();
  }
  // Returns the values after all work given to the stream.
  std::vector<T> values() {
    std::vector<T> copy(size_);
    stream_->copy(copy.data(), data(), bytes());
    stream_->synchronize();
    return copy;
  }
  int64_t bytes() const { return static_cast<int64_t>(size_ * sizeof(T)); }

 private:
  OwnStream& stream_;
  size_t size_;
  std::unique_ptr<Buffer> buffer_;
};

inline int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Returns counts for every rank: even and uneven, with zeros, of one rank alone, around 1000 (one
// test's limit of pieces), and longer than any limit inside an implementation.
inline std::vector<Counts> count_patterns(int ranks) {
  const auto size = static_cast<size_t>(ranks);
  std::vector<Counts> patterns = {Counts(size, 0), Counts(size, 7), Counts(size, 1000),
                                  Counts(size, 12001)};
  Counts uneven;
  Counts gaps;
  Counts limits;
  Counts longer;
  Counts steep;
  for (int r = 0; r < ranks; ++r) {
    uneven.push_back(3 + 5 * r * r);
    steep.push_back(2500 * r);
    gaps.push_back(r % 2 == 0 ? 0 : 40 + r);
    limits.push_back(999 + r);
    longer.push_back(r == 1 ? 300001 : 20000 + 130 * r);
  }
  for (const Counts& counts : {uneven, gaps, limits, longer, steep}) {
    patterns.push_back(counts);
    patterns.emplace_back(counts.rbegin(), counts.rend());
  }
  for (const size_t only : {size_t{0}, size - 1}) {
    Counts counts(size, 0);
    counts[only] = 2131;
    patterns.push_back(counts);
  }
  return patterns;
}

// Buffers end in an element that collectives must not touch.
inline constexpr int32_t kGuard = -77;

inline std::vector<int32_t> guarded(int64_t count) {
  return std::vector<int32_t>(static_cast<size_t>(count) + 1, kGuard);
}

// Returns element i of the data that rank `from` sends to rank `to`.
inline int32_t element(int from, int to, int64_t i) {
  return static_cast<int32_t>(from * 100000007 + to * 10000019 + i);
}

// Compares vectors with one message at most.
template <typename T>
void expect_equal(const std::vector<T>& seen, const std::vector<T>& wanted) {
  ASSERT_EQ(seen.size(), wanted.size());
  const auto at = std::mismatch(seen.begin(), seen.end(), wanted.begin());
  if (at.first != seen.end()) {
    ADD_FAILURE() << "element " << at.first - seen.begin() << " of " << seen.size() - 1 << " is "
                  << *at.first << ", not " << *at.second;
  }
}

// Returns a number that differs for different bits.
inline uint64_t bits_of(const std::vector<float>& values) {
  uint64_t bits = 0;
  for (const float value : values) {
    uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    bits = bits * 31 + word;
  }
  return bits;
}

}  // namespace hidup
