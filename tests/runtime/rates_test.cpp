// Measurements of a device's rates, whatever these are.
#include "runtime/rates.h"

#include <gtest/gtest.h>

#include <memory>

namespace hidup {
namespace {

TEST(Rates, AreMeasuredInLittleMemory) {
  const std::unique_ptr<Communicator> world = make_self_communicator();
  const std::unique_ptr<Device> device = make_device({.memory = int64_t{2} << 20});
  const DeviceRates rates = measure_own_rates(*device, *world, 2, {DType::f32, DType::bf16});
  ASSERT_EQ(rates.products.size(), 2U);
  for (const auto& [dtype, rate] : rates.products) {
    EXPECT_GT(rate, 1e3) << name_of(dtype);
  }
  EXPECT_GT(rates.memory, 1e3);
  EXPECT_EQ(device->allocated(), 0);
}

}  // namespace
}  // namespace hidup
