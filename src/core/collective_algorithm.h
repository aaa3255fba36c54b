// Algorithms of collectives. Programs and profiles name one, and communicators follow it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hidup {

enum class CollectiveAlgorithm {
  automatic,  // the communicator chooses by the size alone
  ring,       // all-reduce, all-gather, reduce-scatter: blocks travel around a ring
  halving,    // the same collectives: recursive halving, recursive doubling
  tree,       // all-reduce: a reduction to one rank and a broadcast
  pairwise,   // all-to-all: one peer after the other
  bruck,      // all-to-all: blocks travel distances that are powers of two
  windows,    // copies through memory that the ranks of a host share
};

std::string_view name_of(CollectiveAlgorithm algorithm);
// Returns the names, separated by blanks: "windows ring windows".
std::string names_of(std::span<const CollectiveAlgorithm> algorithms);

}  // namespace hidup
