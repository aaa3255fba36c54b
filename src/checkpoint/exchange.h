// Exchange of small pieces of tensors, so that ranks write large ones.
//
// Only large writes are fast. So the blocks of tensors whose boxes have short runs, such as
// columns, are dealt out to the ranks, which get the missing pieces from the others.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/division.h"
#include "checkpoint/tensor_writer.h"
#include "comm/communicator.h"

namespace hidup {

class BlockExchange {
 public:
  // Ranks below `writers` write; with one writer, it writes all tensors. All ranks know the other
  // arguments, which must outlive this object.
  BlockExchange(const std::vector<StoredTensor>& tensors,
                const std::vector<std::vector<Region>>& boxes, const std::vector<Share>& shares,
                int writers);

  // Returns true if the tensor is exchanged. Otherwise every rank writes its own part of it.
  bool has(size_t tensor) const { return exchanged_[tensor]; }

  // Collective. Exchanges all blocks. `copied` has the bytes of this rank's share. Ranks that do
  // not write need no `writer`. Throws CollectiveError.
  void run(Communicator& group, std::span<const std::byte> copied, TensorWriter* writer) const;

 private:
  struct Block {
    size_t tensor;
    int64_t at;  // first byte in the tensor
    int64_t bytes;
  };
  using Window = std::span<const Block>;

  // The elements of a rank's box that it writes.
  struct Elements {
    int64_t first;
    int64_t count;
  };

  Window window(size_t round, size_t rank) const;
  Elements elements_of(size_t rank, const Block& block) const;
  int64_t bytes_of(size_t rank, Window blocks) const;
  template <typename Visit>
  void for_each_piece(size_t rank, const Block& block, const Visit& visit) const;
  void pack(size_t rank, Window blocks, std::span<const std::byte> copied,
            std::vector<std::byte>& packed) const;
  void write(Window blocks, std::span<const std::byte> received, const std::vector<int64_t>& counts,
             TensorWriter& writer) const;

  const std::vector<StoredTensor>& tensors_;
  const std::vector<std::vector<Region>>& boxes_;
  const std::vector<Share>& shares_;
  size_t writers_;
  size_t window_;                           // blocks that a writer gets at once
  std::vector<bool> exchanged_;             // [tensor]
  std::vector<Block> blocks_;               // blocks of the exchanged tensors
  std::vector<std::vector<Part>> part_of_;  // [rank][tensor]; count 0: none
};

}  // namespace hidup
