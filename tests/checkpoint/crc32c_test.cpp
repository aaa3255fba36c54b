#include "checkpoint/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace hidup {
namespace {

// Computes the checksum bit by bit, as RFC 3720 defines it.
uint32_t reference(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
    }
  }
  return ~crc;
}

std::vector<std::byte> random_bytes(size_t count, std::mt19937& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

TEST(Crc32c, IsTheOneOfTheStandard) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283U);
  std::mt19937 random(1);
  for (const size_t count : {0U, 1U, 7U, 64U, 4097U, 70'000U}) {
    const std::vector<std::byte> bytes = random_bytes(count, random);
    EXPECT_EQ(crc32c(bytes), reference(bytes)) << count;
  }
}

TEST(Crc32c, AddsUpPartsOfABlock) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::vector<std::byte> bytes = random_bytes(1 + random() % 20'000, random);
    // Each stretch of the block belongs to one of three owners.
    uint32_t sum = 0;
    std::vector<size_t> owners;
    while (owners.size() < bytes.size()) {
      owners.insert(owners.end(), 1 + random() % 3000, random() % 3);
    }
    for (size_t owner = 0; owner < 3; ++owner) {
      uint32_t own = 0;
      for (size_t i = 0; i < bytes.size(); ++i) {
        own = owners[i] == owner ? linear_crc(own, std::span(bytes).subspan(i, 1))
                                 : linear_crc_of_zeros(own, 1);
      }
      sum ^= own;
    }
    ASSERT_EQ(complete_crc(sum, static_cast<int64_t>(bytes.size())), reference(bytes)) << round;
  }
}

TEST(Crc32c, CrossesManyZeros) {
  std::vector<std::byte> bytes(1'000'000);
  bytes[3] = std::byte{5};
  const uint32_t begin = linear_crc(0, std::span(bytes).first(4));
  EXPECT_EQ(complete_crc(linear_crc_of_zeros(begin, 999'996), 1'000'000), reference(bytes));
}

}  // namespace
}  // namespace hidup
