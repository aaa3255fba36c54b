// The boxes of a reshard's values, and their copies to and from messages; for the sources of this
// folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/region.h"
#include "kernels/copy_strided.h"
#include "runtime/operands.h"

namespace hidup {

// How a box of the tensor lies in memory that holds the region densely.
struct Place {
  int64_t offset = 0;
  int64_t stride[kMaxDims] = {};

  Place(const Region& held, const Region& box);
};

kernels::StridedCopy copy_between(DType dtype, const Region& box, const Place& from,
                                  const Place& to);

// Copies elements that lie in a row; `element`: bytes of one.
kernels::StridedCopy dense_copy(int64_t count, int64_t element);

struct Copy {
  const std::byte* from;
  std::byte* to;
  kernels::StridedCopy elements;
};

void issue(const std::vector<Copy>& copies, Stream& stream);

// Joins copies of one shape at equal distances, so that equal parts need one launch.
std::vector<Copy> joined(std::vector<Copy> copies);

// All values of the instruction have one type.
DType dtype_of(const Operands& at);
const std::byte* input(const Operands& at, size_t i);
std::byte* output(const Operands& at, size_t i);

// Copies the elements that the first input and the first output have in common.
Copy copy_common(const Operands& at);

// One side of the messages between a rank and others: the boxes of the values that go to each of
// them, or come from it, in the order of ranks and then of values.
class Messages {
 public:
  // The peers are those of its collective_group(), or these.
  explicit Messages(const Operands& at);
  Messages(const Operands& at, std::vector<int64_t> peers);

  size_t axis() const { return static_cast<size_t>(at_.instruction().axis); }
  size_t peers() const { return peers_.size(); }
  bool is(size_t peer) const { return peers_[peer] == at_.binding().rank; }

  // Elements to and from every peer.
  std::vector<int64_t> send_counts() const;
  std::vector<int64_t> receive_counts() const;
  // Elements that one rank has and another one gets.
  int64_t count_between(int64_t from, int64_t to) const;

  // Copies between the values and a buffer, of the messages to or from the first `count` peers.
  std::vector<Copy> pack(std::byte* buffer, size_t count) const;
  std::vector<Copy> unpack(const std::byte* buffer, size_t count) const;

 private:
  // The part of a value that one rank has and another one gets.
  Region box(size_t value, int64_t from, int64_t to) const;

  const Operands& at_;
  size_t values_;
  std::vector<int64_t> peers_;
};

// The copies and messages of a rank in a hierarchical all-to-all; counts are in elements.
struct TwoExchanges {
  std::byte* first;  // the buffers, each as large as Program::local_bytes() says
  std::byte* second;
  std::vector<Copy> pack;     // to the first one, by rank inside, then by rank along the axis
  std::vector<Copy> reorder;  // from the second to the first: by rank along the axis, then inside
  std::vector<Copy> unpack;   // from the second
  std::vector<int64_t> sent_inside, received_inside, sent_along, received_along;  // by rank

  // `beside`: the ranks of the group inside; `across`: those along the axis.
  TwoExchanges(const Operands& at, const std::vector<int64_t>& beside,
               const std::vector<int64_t>& across);
};

}  // namespace hidup
