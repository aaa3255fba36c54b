#include "core/collective_algorithm.h"

#include <array>

namespace hidup {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"automatic", "ring",  "halving", "tree",
                                                    "pairwise",  "bruck", "windows"};

}  // namespace

std::string_view name_of(CollectiveAlgorithm algorithm) {
  return kNames.at(static_cast<size_t>(algorithm));
}

std::string names_of(std::span<const CollectiveAlgorithm> algorithms) {
  std::string names;
  for (const CollectiveAlgorithm algorithm : algorithms) {
    names += names.empty() ? "" : " ";
    names += name_of(algorithm);
  }
  return names;
}

}  // namespace hidup
