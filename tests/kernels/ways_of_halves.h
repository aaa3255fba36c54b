// How CPUs multiply elements of 16 bits: the ways that typed tests go through.
#pragma once

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
    if (Way::kNative && !bf16_is_native()) {
      GTEST_SKIP() << "the CPU has no instructions for bf16";
    }
  }
  void TearDown() override { multiply_bf16_natively(false); }
};

}  // namespace hidup::kernels::testing
