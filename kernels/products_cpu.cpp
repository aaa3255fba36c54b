#include "kernels/products.h"

namespace hidup::kernels {

void reserve_multiprocessors(int) {}

TimeAlgorithms::TimeAlgorithms() = default;
TimeAlgorithms::~TimeAlgorithms() = default;
std::vector<AlgorithmTimes> TimeAlgorithms::times() const {
  return {};
}

void choose_algorithms(const std::map<std::vector<int64_t>, int>&) {}

}  // namespace hidup::kernels
