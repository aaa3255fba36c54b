// Collectives over several axes of a mesh, composed of collectives over one axis each.
//
// The ranks are ordered so that the elements for one inner rank lie together, so packing is all
// that a hierarchical collective needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

// Contiguous pieces of an array, one per rank of an axis. Each piece consists of one part per rank
// of the outer axes.
struct AxisPieces {
  std::vector<int64_t> counts;  // elements per rank of the axis
  int64_t start = 0;            // first element of this rank's piece
  std::vector<int64_t> mine;    // elements of each part of this rank's piece
};
// Returns the pieces along `axis`. `counts`: elements per rank of the axes from the outermost to
// this one, in the order of collective_group().
AxisPieces pieces_of(const Communicator& axis, const std::vector<int64_t>& counts);
// Returns the elements of all pieces together.
int64_t sum_of(const std::vector<int64_t>& counts);

// Device collectives of one rank over an axis and the axes inside it, as in Communicator. They use
// the algorithms of an instruction (Instruction::algorithms). Ranks are in the order of
// collective_group(): ranks that differ only on the innermost axis are furthest apart. Without
// inner axes, the collectives are those of the axis's communicator.
class Hierarchy {
 public:
  // `inner`: outermost first. All communicators outlive the hierarchy.
  Hierarchy(Communicator& axis, std::vector<Communicator*> inner,
            std::vector<CollectiveAlgorithm> algorithms = {});

  // Reduce-scatters along the inner axes, innermost first, all-reduces this rank's piece along the
  // outermost axis, and all-gathers the sums back along the inner axes.
  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                  const std::string& name) const;
  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, const std::string& name) const;
  // With inner axes, overwrites parts of `send`.
  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype,
                      const std::string& name) const;

 private:
  // Returns the algorithm of a part (message_parts()) of the collective.
  CollectiveAlgorithm algorithm(size_t part) const;

  std::vector<Communicator*> axes_;  // outermost first
  std::vector<CollectiveAlgorithm> algorithms_;
};

}  // namespace hidup
