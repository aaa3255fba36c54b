#include "sharding/algorithms.h"

#include <array>

namespace hidup {

std::span<const CollectiveAlgorithm> algorithms_of(ReshardKind collective) {
  using enum CollectiveAlgorithm;
  static constexpr std::array kSums = {automatic, ring, halving, tree, windows};
  static constexpr std::array kParts = {automatic, ring, halving, windows};
  static constexpr std::array kExchanges = {automatic, pairwise, bruck, windows};
  static constexpr std::array kOthers = {automatic};
  switch (collective) {
    case ReshardKind::all_reduce:
      return kSums;
    case ReshardKind::all_gather:
    case ReshardKind::reduce_scatter:
      return kParts;
    case ReshardKind::all_to_all:
      return kExchanges;
    case ReshardKind::broadcast:
    case ReshardKind::move:
      return kOthers;
    default:
      return {};
  }
}

CollectiveAlgorithm chosen_algorithm(const std::vector<AlgorithmChoice>& choices,
                                     ReshardKind collective, size_t axis, double bytes) {
  const AlgorithmChoice* chosen = nullptr;
  for (const AlgorithmChoice& choice : choices) {
    if (choice.collective == collective && choice.axis == axis && choice.bytes <= bytes &&
        (chosen == nullptr || choice.bytes >= chosen->bytes)) {
      chosen = &choice;
    }
  }
  return chosen == nullptr ? CollectiveAlgorithm::automatic : chosen->algorithm;
}

}  // namespace hidup
