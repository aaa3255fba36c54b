#include "comm/mpi_algorithms.h"

namespace hidup {
namespace {

// Children and parent of a rank in the tree. A child differs from the rank in one bit below the
// rank's lowest set bit, and the parent lacks that bit.
struct Relatives {
  std::vector<int> children;  // the nearest first
  int parent = -1;            // -1 for rank 0
};

Relatives relatives_of(int rank, int ranks) {
  Relatives found;
  for (int bit = 1; bit < ranks; bit *= 2) {
    if ((rank & bit) != 0) {
      found.parent = rank - bit;
      break;
    }
    if (rank + bit < ranks) {
      found.children.push_back(rank + bit);
    }
  }
  return found;
}

}  // namespace

void tree_all_reduce(MpiMessages& messages, void* data, int64_t count, const Elements& elements,
                     const std::string& doing) {
  if (count == 0) {
    return;
  }
  const Relatives relatives = relatives_of(messages.rank(), messages.size());
  const std::vector<Run> all = {{data, count}};
  for (const int child : relatives.children) {
    messages.exchange_and_add({}, child, all, child, elements, doing);
  }
  if (relatives.parent >= 0) {
    messages.exchange_and_add(all, relatives.parent, {}, relatives.parent, elements, doing);
    messages.exchange({}, relatives.parent, all, relatives.parent, elements.bytes, doing);
  }
  // Children with larger subtrees come first.
  for (auto child = relatives.children.rbegin(); child != relatives.children.rend(); ++child) {
    messages.exchange(all, *child, {}, *child, elements.bytes, doing);
  }
}

}  // namespace hidup
