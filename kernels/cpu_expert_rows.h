// The rows of experts' buffers that are in use (expert_matmul.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu_team.h"
#include "kernels/expert_matmul.h"

namespace hidup::kernels {

// Indices of the used rows of a buffer.
class RowsInUse {
 public:
  RowsInUse(const int32_t* counts, const ExpertSize& size) {
    for (int64_t e = 0; e < size.experts; ++e) {
      for (int64_t i = e * size.batch; i < (e + 1) * size.batch; ++i) {
        const int64_t first =
            size.packed ? static_cast<int64_t>(places_.size()) : i * size.capacity;
        for (int64_t slot = 0; slot < counts[i]; ++slot) {
          places_.push_back(first + slot);
        }
      }
      starts_.push_back(places_.size());
    }
  }

  // Returns the indices for an expert.
  const int64_t* places(int64_t expert) const {
    return places_.data() + starts_[static_cast<size_t>(expert)];
  }
  int64_t count(int64_t expert) const { return places(expert + 1) - places(expert); }
  int64_t count() const { return static_cast<int64_t>(places_.size()); }
  // Returns the expert of one of all used rows.
  int64_t expert_of(int64_t used) const {
    return std::ranges::upper_bound(starts_, static_cast<size_t>(used)) - starts_.begin() - 1;
  }

 private:
  std::vector<int64_t> places_;
  std::vector<size_t> starts_ = {0};
};

// Writes zeros to the unused rows, of n elements, of a buffer that is not packed.
template <typename Element>
void clear_unused(Element* y, int64_t n, const int32_t* counts, const ExpertSize& size) {
  for_each(size.packed ? 0 : size.batch * size.experts * size.capacity, [&](int64_t row) {
    if (row % size.capacity >= counts[row / size.capacity]) {
      std::fill_n(y + row * n, n, Element(0.0F));
    }
  });
}

}  // namespace hidup::kernels
