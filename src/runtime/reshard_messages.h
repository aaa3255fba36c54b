// Boxes of values that change layout, and copies between values and messages; for this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/region.h"
#include "kernels/copy_strided.h"
#include "runtime/operands.h"

namespace hidup {

// Offset and strides (elements) of a box in memory that holds the region `held` densely.
struct Place {
  int64_t offset = 0;
  int64_t stride[kMaxDims] = {};

  Place(const Region& held, const Region& box);
};

kernels::StridedCopy copy_between(DType dtype, const Region& box, const Place& from,
                                  const Place& to);

// Returns a copy of contiguous elements of `element` bytes each.
kernels::StridedCopy dense_copy(int64_t count, int64_t element);

struct Copy {
  const std::byte* from;
  std::byte* to;
  kernels::StridedCopy elements;
};

void issue(const std::vector<Copy>& copies, Stream& stream);

// Joins copies of one shape at equal distances, so that one launch does them.
std::vector<Copy> joined(std::vector<Copy> copies);

// Returns the dtype that all values of the instruction have.
DType dtype_of(const Operands& at);
const std::byte* input(const Operands& at, size_t i);
std::byte* output(const Operands& at, size_t i);

// Returns copies of the elements that the first input and the first output have in common.
std::vector<Copy> copies_in_common(const Operands& at);

// The messages between this rank and its peers, in the order of peers. A message consists of the
// boxes that one rank sends to another, in the order of values.
class Messages {
 public:
  // The peers are the ranks of the instruction's collective_group(), or `peers`.
  explicit Messages(const Operands& at);
  Messages(const Operands& at, std::vector<int64_t> peers);

  size_t axis() const { return static_cast<size_t>(at_.instruction().axis); }
  size_t peers() const { return peers_.size(); }
  bool is(size_t peer) const { return peers_[peer] == at_.binding().rank; }

  // Return the number of elements to and from every peer.
  std::vector<int64_t> send_counts() const;
  std::vector<int64_t> receive_counts() const;
  // Returns the number of elements that `from` sends to `to`.
  int64_t count_between(int64_t from, int64_t to) const;

  // Return the copies of the messages to or from the first `count` peers into or out of a buffer.
  std::vector<Copy> pack(std::byte* buffer, size_t count) const;
  std::vector<Copy> unpack(const std::byte* buffer, size_t count) const;

 private:
  // Returns the part of a value that `from` has and `to` gets.
  Region box(size_t value, int64_t from, int64_t to) const;
  // Returns the number of its elements, which a message has densely.
  int64_t elements_of(size_t value, const Region& box) const;

  const Operands& at_;
  size_t values_;
  std::vector<int64_t> peers_;
};

// The copies and messages of a rank in a hierarchical all-to-all. Counts are in elements.
struct TwoExchanges {
  std::byte* first;  // buffers of Program::local_bytes() bytes each
  std::byte* second;
  std::vector<Copy> pack;     // into the first buffer: by rank inside, then by rank along the axis
  std::vector<Copy> reorder;  // second to first buffer: by rank along the axis, then inside
  std::vector<Copy> unpack;   // out of the second buffer
  std::vector<int64_t> sent_inside, received_inside, sent_along, received_along;  // by rank

  // `beside`: the ranks of the group inside the axis. `across`: the ranks along the axis.
  TwoExchanges(const Operands& at, const std::vector<int64_t>& beside,
               const std::vector<int64_t>& across);
};

}  // namespace hidup
