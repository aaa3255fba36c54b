// Collectives over several axes of a mesh, made of collectives over one axis each.
//
// Ranks are in an order in which what an inner rank needs lies together, so packing is all that it
// takes. Between the two exchanges of an all-to-all a rank holds what it passes on to others: that
// is no value, so every region stays one box (Value::exchanged_along). A flat all-to-all has a
// communicator along several axes (MeshGroups::along()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

// What the ranks of an axis have of elements that lie one behind the other, each for all ranks of
// the axes around it.
struct AxisPieces {
  std::vector<int64_t> counts;  // of each of the axis's ranks
  int64_t start = 0;            // of this rank's
  std::vector<int64_t> mine;    // of which this rank's consists
};
// `counts`: those of all ranks of the axes from the outermost to this one, in the order of
// collective_group().
AxisPieces pieces_of(const Communicator& axis, const std::vector<int64_t>& counts);

// Communicators of one rank: of an axis, and of the axes inside of it. Ranks are in the order of
// collective_group(): those that differ on the innermost axis only lie furthest apart. Without
// inner axes it is the axis's communicator. Device collectives as Communicator has them, by the
// algorithms of an instruction (Instruction::algorithms).
class Hierarchy {
 public:
  // `inner`: outermost first. All outlive it.
  Hierarchy(Communicator& axis, std::vector<Communicator*> inner,
            std::vector<CollectiveAlgorithm> algorithms = {});

  // Every inner axis scatters sums of its pieces, the axis sums what is left, and they are
  // gathered.
  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                  const std::string& name) const;
  void all_gather(Stream& stream, const void* send, void* receive,
                  const std::vector<int64_t>& counts, DType dtype, const std::string& name) const;
  // With inner axes, `send` is memory that may be overwritten.
  void reduce_scatter(Stream& stream, const void* send, void* receive,
                      const std::vector<int64_t>& counts, DType dtype,
                      const std::string& name) const;

 private:
  // Of the collective's part with that number.
  CollectiveAlgorithm algorithm(size_t part) const;

  std::vector<Communicator*> axes_;  // outermost first
  std::vector<CollectiveAlgorithm> algorithms_;
};

}  // namespace hidup
