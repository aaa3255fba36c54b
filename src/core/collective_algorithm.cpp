#include "core/collective_algorithm.h"

#include <algorithm>
#include <array>

namespace hidup {
namespace {

constexpr std::array<std::string_view, 8> kNames = {
    "automatic", "ring", "halving", "tree", "pairwise", "bruck", "windows", "hierarchical"};

}  // namespace

std::string_view name_of(CollectiveAlgorithm algorithm) {
  return kNames.at(static_cast<size_t>(algorithm));
}

std::optional<CollectiveAlgorithm> parse_collective_algorithm(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  return found == kNames.end()
             ? std::nullopt
             : std::optional(static_cast<CollectiveAlgorithm>(found - kNames.begin()));
}

}  // namespace hidup
