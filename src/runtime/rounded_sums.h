// Sums over ranks that send their summands in 16 bits and add in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/dtype.h"

namespace hidup {

// A library's collective would round at every hop. Here every rank rounds its summands for the
// other ranks' pieces, an all-to-all sends them, and every rank adds the received summands, in rank
// order, to its own unrounded summand. The axes take turns, the innermost first. Communicators and
// rank order are those of a Hierarchy.
class RoundedSums {
 public:
  // Device memory for 16-bit elements: `rounded` elements and then `received` ones
  // (Program::summed_elements()).
  struct Buffer {
    std::byte* data = nullptr;
    int64_t rounded = 0;
    int64_t received = 0;
  };

  // `inner`: outermost first. Communicators outlive this. `algorithms`: one per message_parts().
  RoundedSums(Communicator& axis, const std::vector<Communicator*>& inner, DType sent_as,
              const Buffer& buffer, std::vector<CollectiveAlgorithm> algorithms);

  // data: [count], replaced by its sum, which is rounded once; every rank gets the same bits.
  void all_reduce(Stream& stream, float* data, int64_t count, const std::string& name) const;
  // send: [sum of counts], partly overwritten if there are inner axes; receive: [counts[rank]],
  // this rank's part of the sum. `receive` may be its place in `send`.
  void reduce_scatter(Stream& stream, const float* send, float* receive,
                      const std::vector<int64_t>& counts, const std::string& name) const;

 private:
  // Returns the elements per rank if every axis, innermost first, splits pieces into balanced ones.
  std::vector<int64_t> balanced_pieces(int64_t count) const;
  // Returns the first element of this rank's piece.
  int64_t start_of(std::vector<int64_t> counts) const;
  // Writes the sum of this rank's piece of `whole` along one axis to `sum`.
  void scatter(Stream& stream, size_t axis, const float* whole, float* sum,
               const std::vector<int64_t>& counts, const std::string& name) const;
  // Rounds elements into the buffer from its element `to` on.
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
