// Methods of CPUs for products of 16-bit elements, as types for typed tests.
#pragma once

#include <type_traits>

#include "kernels/arithmetic.h"
#include "two_types.h"

namespace hidup::kernels::testing {

struct Native {
  using Element = BFloat16;
  static constexpr bool kNative = true;
};
struct AsFloats {
  using Element = BFloat16;
  static constexpr bool kNative = false;
};
struct OfHalves {
  using Element = Float16;
  static constexpr bool kNative = false;
};
using WaysOfHalves = ::testing::Types<Native, AsFloats, OfHalves>;

template <typename Way>
class OnWay : public ::testing::Test {
 protected:
  void SetUp() override {
    multiply_bf16_natively(Way::kNative);
    const bool of_bf16 = std::is_same_v<typename Way::Element, BFloat16>;
    if (of_bf16 && bf16_is_native() != Way::kNative) {
      GTEST_SKIP() << "the device multiplies bf16 in the other way only";
    }
  }
  void TearDown() override { multiply_bf16_natively(false); }
};

}  // namespace hidup::kernels::testing
