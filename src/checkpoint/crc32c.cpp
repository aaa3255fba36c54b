#include "checkpoint/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

namespace hidup {

uint32_t linear_crc(uint32_t before, std::span<const std::byte> bytes) {
  constexpr size_t kAtOnce = size_t{1} << 30;  // ISA-L counts with an int
  uint32_t crc = before;
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kAtOnce));
    // ISA-L does not write to the data.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return crc;
}

uint32_t linear_crc_of_zeros(uint32_t before, int64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros = {};
  uint32_t crc = before;
  while (crc != 0 && count > 0) {  // the linear CRC of zeros alone is zero
    const int64_t piece = std::min<int64_t>(count, kZeros.size());
    crc = linear_crc(crc, std::span(kZeros).first(static_cast<size_t>(piece)));
    count -= piece;
  }
  return crc;
}

uint32_t complete_crc(uint32_t linear, int64_t count) {
  return linear ^ ~linear_crc_of_zeros(~uint32_t{0}, count);
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  RunningCrc crc;
  crc.add(bytes);
  return crc.value();
}

}  // namespace hidup
