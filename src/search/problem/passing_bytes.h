// How much memory is taken by what parameters need for a part of the step only: gathered copies,
// and sums of gradients that do not become the totals in place.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "sharding/strategy.h"

namespace hidup {

// Of a parameter.
struct PassingBytes {
  double gathered = 0.0;   // the copy in the layout in which it is used; 0: none
  double sums = 0.0;       // of its gradient, where they do not become the total in place
  double undivided = 0.0;  // those, if the rank had all of them
};

class PassingMemory {
 public:
  // `reads`: backward_reads(). Activations count as divided among all ranks. `all_sums`: gradients'
  // sums take memory beside them, because they stay while a further group begins, or there are few
  // activations.
  PassingMemory(const Graph& graph, const std::vector<int>& reads, int64_t ranks,
                int64_t bucket_bytes, int microbatches, bool all_sums);

  // Of an operation's parameters, each kept that way: what they take while the step takes most.
  double bytes(const std::vector<PassingBytes>& parameters, const std::vector<Kept>& kept) const;

 private:
  bool all_sums_;
  // Where activations were, as a part of the undivided sums of all parameters: room for sums of
  // gradients. Activations are there when the backward pass begins, and go as it goes on; sums
  // come.
  double room_ = 0.0;
  // What parameters kept for a pass and their sums take at a time, as a part of all that is
  // gathered: two buckets of parameters and two of sums, or three where microbatches take turns.
  double gathered_ = 0.0;
};

}  // namespace hidup
