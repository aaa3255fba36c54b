// The content of tensors on its way into the file.
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

// Writes parts of tensors, with the disk close behind, and computes their CRCs.
class TensorWriter {
 public:
  TensorWriter(const OpenFile& file, const std::vector<StoredTensor>& tensors,
               const std::vector<int64_t>& places)
      : file_(file), tensors_(tensors), places_(places) {}

  // Bytes of a tensor, from that one on. They best follow each other.
  void write(size_t tensor, int64_t at, std::span<const std::byte> bytes);
  // Brings all to the disk. The CRCs of all that was written.
  std::vector<BlockCrc> finish();

 private:
  void add_crc(size_t tensor, int64_t at, std::span<const std::byte> bytes);
  void end_block();
  void pace(int64_t at, int64_t count);

  const OpenFile& file_;
  const std::vector<StoredTensor>& tensors_;
  const std::vector<int64_t>& places_;
  std::vector<BlockCrc> crcs_;
  BlockCrc now_;         // of the block in which the last bytes were,
  int64_t crc_end_ = 0;  // up to this byte of the tensor; 0: there is none
  // What was written since the disk was last asked to follow, and what it was asked for then.
  Extent fresh_;
  Extent flushing_;
  int64_t fresh_bytes_ = 0;
};

// The CRC-32Cs of all blocks of a tensor, from the linear ones.
std::vector<uint32_t> complete_crcs(const StoredTensor& tensor,
                                    const std::vector<uint32_t>& linear);

}  // namespace hidup
