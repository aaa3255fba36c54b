// Sums over ranks whose summands are sent in 16 bits, and added in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/dtype.h"

namespace hidup {

// A collective of a library would round at every hop. So a rank rounds what it has of the others'
// pieces, all send theirs to all, and each adds, in the order of ranks, what it gets to its own
// summand, which it has not rounded. Communicators are those of a Hierarchy, by whose order of
// ranks it goes along one axis after the other, the innermost first.
class RoundedSums {
 public:
  // Device memory for elements of 16 bits: `received` of them behind `rounded` ones
  // (Program::summed_elements()).
  struct Buffer {
    std::byte* data = nullptr;
    int64_t rounded = 0;
    int64_t received = 0;
  };

  // `inner`: outermost first. All outlive it. `algorithms`: of message_parts().
  RoundedSums(Communicator& axis, const std::vector<Communicator*>& inner, DType sent_as,
              const Buffer& buffer, std::vector<CollectiveAlgorithm> algorithms);

  // data: [count], replaced by the sum, which is rounded once; every rank gets the same bits.
  void all_reduce(Stream& stream, float* data, int64_t count, const std::string& name) const;
  // send: [sum of counts], memory that may be overwritten where there are inner axes; receive:
  // [counts[rank]], this rank's part of the sum. `receive` may be its place in `send`.
  void reduce_scatter(Stream& stream, const float* send, float* receive,
                      const std::vector<int64_t>& counts, const std::string& name) const;

 private:
  // Balanced pieces along every axis of what those inside leave, per rank.
  std::vector<int64_t> balanced_pieces(int64_t count) const;
  // Where this rank's piece begins.
  int64_t start_of(std::vector<int64_t> counts) const;
  // Along one axis: this rank's piece of `whole`, summed, comes to `sum`.
  void scatter(Stream& stream, size_t axis, const float* whole, float* sum,
               const std::vector<int64_t>& counts, const std::string& name) const;
  // Rounds to the buffer's element `to` and those behind it.
  void round(Stream& stream, const float* from, int64_t to, int64_t count) const;
  void widen(Stream& stream, float* to, int64_t count) const;
  void add(Stream& stream, float* sum, int64_t parts, int64_t count) const;
  std::byte* at(int64_t element) const { return buffer_.data + element * size_of(sent_as_); }
  CollectiveAlgorithm algorithm(size_t part) const;

  std::vector<Communicator*> axes_;  // outermost first
  DType sent_as_;
  Buffer buffer_;
  std::vector<CollectiveAlgorithm> algorithms_;
};

}  // namespace hidup
