// How a collective is done: a choice that programs and profiles name and communicators obey.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hidup {

enum class CollectiveAlgorithm {
  automatic,  // as the communicator finds best, by the size alone
  ring,       // all-reduce, all-gather, reduce-scatter: blocks go round
  halving,    // the same: recursive halving, recursive doubling
  tree,       // all-reduce: a reduction to one rank and a broadcast
  pairwise,   // all-to-all: one peer after the other
  bruck,      // all-to-all: pieces go by powers of two
  windows,    // memory that the ranks of a host share
};

std::string_view name_of(CollectiveAlgorithm algorithm);
// "windows ring windows"
std::string names_of(std::span<const CollectiveAlgorithm> algorithms);

}  // namespace hidup
