// Shared by the kernel tests: random data, guarded outputs, references in double, finite
// differences, and the same work with one and with three threads.
//
// The tests know the kernels by their headers alone, and copy their data to and from device
// buffers, so they hold for any back end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/region.h"
#include "device/device.h"
#include "device_array.h"

namespace hidup::kernels::testing {

inline constexpr double kEpsilon = 0x1p-24;  // rounding error of one float operation
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Doubles = std::vector<double>;

using Floats = DeviceArray<float>;
using Ints = DeviceArray<int32_t>;

// One value in device memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const T& value) : values_(1, value) {}
  T* get() { return values_.data(); }
  const T* get() const { return values_.data(); }
  const T& operator*() const { return values_[0]; }
  const T* operator->() const { return &values_[0]; }

 private:
  DeviceArray<T> values_;
};

// Returns uniform values with mean 0 and standard deviation `scale`.
inline Floats random_floats(const std::string& purpose, int64_t n, double scale = 1.0) {
  const RandomStream random = random_stream(20, purpose);
  Floats values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(scale * std::sqrt(12.0) * (random.uniform(i) - 0.5));
  }
  return values;
}

inline Ints random_tokens(const std::string& purpose, int64_t n, int64_t vocab) {
  const RandomStream random = random_stream(20, purpose);
  Ints values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int32_t>(random.word(i) % static_cast<uint64_t>(vocab));
  }
  return values;
}

inline Doubles to_doubles(const Floats& values) {
  return {values.begin(), values.end()};
}

// An output of a kernel: every element is NaN (the smallest integer) until it is written (or starts
// from given values), and writing outside it is an error.
template <typename T>
class GuardedOutput {
 public:
  using Values = DeviceArray<T>;

  explicit GuardedOutput(int64_t n) : GuardedOutput(Values(static_cast<size_t>(n), kUnwritten)) {}
  explicit GuardedOutput(const Values& initial)
      : n_(initial.size()), memory_(n_ + 2 * kGuard, kGuardValue) {
    std::copy(initial.begin(), initial.end(), memory_.begin() + kGuard);
  }
  ~GuardedOutput() {
    const Values& memory = memory_;
    for (size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(memory[i], kGuardValue) << "written " << kGuard - i << " elements before";
      EXPECT_EQ(memory[kGuard + n_ + i], kGuardValue) << "written " << i << " elements after";
    }
  }
  GuardedOutput(const GuardedOutput&) = delete;
  GuardedOutput& operator=(const GuardedOutput&) = delete;

  T* data() { return memory_.data() + kGuard; }
  T operator[](size_t i) const { return memory_[kGuard + i]; }
  size_t size() const { return n_; }
  Values values() const {
    const auto begin = memory_.begin() + kGuard;
    return {begin, begin + static_cast<std::ptrdiff_t>(n_)};
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr T unwritten() {
    if constexpr (std::is_integral_v<T>) {
      return std::numeric_limits<T>::min();
    } else {
      return T(kNan);
    }
  }
  static constexpr T kUnwritten = unwritten();
  static constexpr T kGuardValue = T(-7777);
  size_t n_;
  Values memory_;
};

using Output = GuardedOutput<float>;
using IntOutput = GuardedOutput<int32_t>;

// Runs `work` to its end on a compute stream of that many threads.
inline void run(const std::function<void(Stream&)>& work, int threads = 1) {
  const std::unique_ptr<Device> device = make_device({});
  const std::unique_ptr<Stream> stream = device->create_stream("compute", threads);
  work(*stream);
  stream->synchronize();
}

// Checks that two and three threads compute the same bits as one; `work` returns all its results.
inline void expect_same_bits(const std::function<Floats(int threads)>& work) {
  const Floats one = work(1);
  for (const int threads : {2, 3}) {
    const Floats more = work(threads);
    ASSERT_EQ(one.size(), more.size());
    EXPECT_EQ(std::memcmp(&one[0], &more[0], one.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

// Checks |actual - expected| <= tolerance * (1 + |expected|) for every element; NaN fails.
template <typename Actual>
void expect_close(const Actual& actual, const Doubles& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    ASSERT_TRUE(error <= tolerance * (1.0 + std::abs(expected[i])))
        << what << "[" << i << "] is " << actual[i] << ", expected " << expected[i];
  }
}

// Returns a part of a global tensor.
inline Region box(const std::vector<int64_t>& global, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& extent) {
  Region region;
  region.dims = static_cast<int>(global.size());
  for (size_t d = 0; d < global.size(); ++d) {
    region.global[d] = global[d];
    region.start[d] = start[d];
    region.extent[d] = extent[d];
  }
  return region;
}

inline double dot(const Doubles& a, const Doubles& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

// Compares a gradient with the central differences of `loss` at x, for about 50 elements (all,
// where there are fewer).
template <typename Gradient>
void expect_gradient(const std::function<double(const Doubles&)>& loss, const Doubles& x,
                     const Gradient& gradient, double tolerance, const std::string& what) {
  ASSERT_EQ(gradient.size(), x.size()) << what;
  constexpr double kStep = 1e-5;
  const size_t stride = std::max<size_t>(1, x.size() / 50);
  for (size_t i = 0; i < x.size(); i += stride) {
    Doubles moved = x;
    moved[i] = x[i] + kStep;
    const double up = loss(moved);
    moved[i] = x[i] - kStep;
    const double expected = (up - loss(moved)) / (2.0 * kStep);
    const double error = std::abs(static_cast<double>(gradient[i]) - expected);
    ASSERT_TRUE(error <= tolerance * (1.0 + std::abs(expected)))
        << what << "[" << i << "] is " << gradient[i] << ", expected " << expected;
  }
}

inline void append(Floats& all, const Output& output) {
  const Floats values = output.values();
  all.insert(all.end(), values.begin(), values.end());
}

inline void append(Floats& all, const IntOutput& output) {  // below 2^24
  for (const int32_t value : output.values()) {
    all.push_back(static_cast<float>(value));
  }
}

// Returns the values of all outputs, concatenated.
template <typename... Outputs>
Floats all_of(const Outputs&... outputs) {
  Floats all;
  (append(all, outputs), ...);
  return all;
}

}  // namespace hidup::kernels::testing
