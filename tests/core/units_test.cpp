#include "core/units.h"

#include <gtest/gtest.h>

namespace hidup {
namespace {

TEST(ParseQuantity, KnowsSuffixes) {
  EXPECT_DOUBLE_EQ(parse_quantity("32GiB", Unit::bytes).value(), 32.0 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(parse_quantity("1.5 MB", Unit::bytes).value(), 1.5e6);
  EXPECT_DOUBLE_EQ(parse_quantity("9.71Gbps", Unit::bandwidth).value(), 9.71e9 / 8);
  EXPECT_DOUBLE_EQ(parse_quantity("30us", Unit::seconds).value(), 30e-6);
  EXPECT_DOUBLE_EQ(parse_quantity("15.7TFLOPS", Unit::flops).value(), 15.7e12);
  EXPECT_DOUBLE_EQ(parse_quantity("0", Unit::bytes).value(), 0.0);
}

TEST(ParseQuantity, RefusesTheRest) {
  for (const char* text : {"", "GiB", "32", "-1GiB", "32GB/s", "32 gib", "1e999B", "nanB", "32GiBs",
                           "32  X", "infB"}) {
    EXPECT_FALSE(parse_quantity(text, Unit::bytes).has_value()) << text;
  }
}

TEST(Format, IsForPeople) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(3 * 1024 * 1024 + 256 * 1024), "3.25 MiB");
  EXPECT_EQ(format_seconds(1.234), "1.23 s");
  EXPECT_EQ(format_seconds(0.0227), "22.70 ms");
  EXPECT_EQ(format_seconds(13e-6), "13.0 us");
  EXPECT_EQ(format_duration(4.4), "4 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(-999), "-999");
}

}  // namespace
}  // namespace hidup
