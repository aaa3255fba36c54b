// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of whole blocks and of their parts.
//
// The CRC without its initial and final values is linear: a block's CRC is the XOR of its parts'
// CRCs, each computed with zeros in the place of the other parts. So ranks that hold parts of a
// block need not exchange them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hidup {

// Bytes of a block with a checksum in a tensor's row-major bytes; the last block may be shorter.
inline constexpr int64_t kBlockBytes = 1 << 20;

inline int64_t blocks_of(int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

// Returns the linear CRC of these bytes after those that gave `before` (0: none).
uint32_t linear_crc(uint32_t before, std::span<const std::byte> bytes);
// Returns the linear CRC of zeros after the bytes that gave `before`.
uint32_t linear_crc_of_zeros(uint32_t before, int64_t count);
// Returns the CRC-32C of `count` bytes with this linear CRC.
uint32_t complete_crc(uint32_t linear, int64_t count);

uint32_t crc32c(std::span<const std::byte> bytes);

// Computes a CRC-32C of bytes that come piece by piece.
class RunningCrc {
 public:
  void add(std::span<const std::byte> bytes) { state_ = linear_crc(state_, bytes); }
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~uint32_t{0};
};

}  // namespace hidup
