// Kernels of 16-bit elements and of floats, on the same numbers.
#pragma once

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "core/half.h"
#include "kernel_test.h"

namespace hidup::kernels::testing {

using SixteenBits = ::testing::Types<BFloat16, Float16>;

// The largest relative error of rounding, and the largest absolute one of subnormal numbers.
template <typename Element>
struct Rounding {
  static constexpr double kRelative = std::is_same_v<Element, BFloat16> ? 0x1p-8 : 0x1p-11;
  static constexpr double kAbsolute = std::is_same_v<Element, BFloat16> ? 0x1p-133 : 0x1p-25;
};

// Errors of rounding a result or an intermediate value; zero for floats, because sums are in float
// in any case.
template <typename Element>
struct Stored : Rounding<Element> {};
template <>
struct Stored<float> {
  static constexpr double kRelative = 0.0;
  static constexpr double kAbsolute = 0.0;
};

// The same numbers in 16 bits and as floats.
template <typename Element>
struct Numbers {
  template <typename Values>  // of floats or of elements
  explicit Numbers(const Values& values) {
    for (const float value : values) {
      narrow.push_back(Element(value));
      wide.push_back(Element(value));
    }
  }
  DeviceArray<Element> narrow;
  Floats wide;
};

// Results of the two kernels; both are f32 where the kernel stores f32.
template <typename Narrow>
struct Results {
  explicit Results(int64_t n) : narrow(n), wide(n) {}
  template <typename Element>
  explicit Results(const Numbers<Element>& start) : narrow(start.narrow), wide(start.wide) {}
  explicit Results(const Floats& start) : narrow(start), wide(start) {}
  GuardedOutput<Narrow> narrow;
  Output wide;
};

// The type that a pointer leads to, without const.
template <typename Pointer>
using Pointee = std::remove_cvref_t<decltype(*std::declval<Pointer>())>;

// Select the pointers of a type in a test's work: of(x).
struct Narrow {
  template <typename Pair>
  auto* operator()(Pair& pair) const {
    return pair.narrow.data();
  }
};
struct Wide {
  template <typename Pair>
  auto* operator()(Pair& pair) const {
    return pair.wide.data();
  }
};

// Calls work(stream, of) for both types.
template <typename Work>
void run_both(Work work) {
  run([&](Stream& stream) {
    work(stream, Narrow{});
    work(stream, Wide{});
  });
}

}  // namespace hidup::kernels::testing
