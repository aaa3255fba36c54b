// Transient memory of parameters: gathered copies, and sums of gradients that do not become the
// totals in place.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "sharding/strategy.h"

namespace hidup {

// The transient bytes of a parameter.
struct TransientBytes {
  double gathered = 0.0;   // a copy in the layout of its use; 0: none
  double sums = 0.0;       // of gradients, unless they become the totals in place
  double undivided = 0.0;  // the sums, if one rank had all of them
};

class TransientMemory {
 public:
  // `reads`: backward_reads(). Activations count as divided among all ranks. `all_sums`: gradient
  // sums need memory of their own beside activations, because they stay while a further group
  // begins, or because there are few activations.
  TransientMemory(const Graph& graph, const std::vector<int>& reads, int64_t ranks,
                  int64_t bucket_bytes, int microbatches, bool all_sums);

  // Returns the bytes of an operation's parameters of these residencies at the step's peak.
  double bytes(const std::vector<TransientBytes>& parameters,
               const std::vector<Residency>& residencies) const;

 private:
  bool all_sums_;
  // The room that freed activations leave to gradient sums, as a part of the undivided sums of all
  // parameters. The backward pass frees activations as it adds sums.
  double room_ = 0.0;
  // The share of parameters gathered for a pass, and of their sums, that is in memory at a time:
  // two buckets of parameters and two of sums, or three where microbatches take turns.
  double gathered_ = 0.0;
};

}  // namespace hidup
