// The writer of tensors' content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/header.h"
#include "checkpoint/open_file.h"

namespace hidup {

// The linear CRC of a part of a block (crc32c.h).
struct BlockCrc {
  uint32_t tensor = 0;
  uint32_t crc = 0;
  int64_t block = 0;
};

// Writes parts of tensors, flushes them soon after, and computes their CRCs.
class TensorWriter {
 public:
  TensorWriter(const OpenFile& file, const std::vector<StoredTensor>& tensors,
               const std::vector<int64_t>& places)
      : file_(file), tensors_(tensors), places_(places) {}

  // Writes bytes of a tensor from byte `at` on. Calls best follow each other's bytes.
  void write(size_t tensor, int64_t at, std::span<const std::byte> bytes);
  // Flushes all to the disk and returns the CRCs of all written bytes.
  std::vector<BlockCrc> finish();

 private:
  void add_crc(size_t tensor, int64_t at, std::span<const std::byte> bytes);
  void end_block();
  void pace(int64_t at, int64_t count);

  const OpenFile& file_;
  const std::vector<StoredTensor>& tensors_;
  const std::vector<int64_t>& places_;
  std::vector<BlockCrc> crcs_;
  BlockCrc now_;         // CRC of the block of the last bytes
  int64_t crc_end_ = 0;  // end of its bytes in the tensor; 0: no block
  // Bytes written since the last flush was started, and the bytes of that flush.
  Extent fresh_;
  Extent flushing_;
  int64_t fresh_bytes_ = 0;
};

// Returns the CRC-32Cs of all blocks of a tensor, from the linear ones.
std::vector<uint32_t> complete_crcs(const StoredTensor& tensor,
                                    const std::vector<uint32_t>& linear);

}  // namespace hidup
