#include "runtime/packed_rows.h"

#include <numeric>

#include "core/check.h"

namespace hidup {

// Boxes number sequences from the start of the step, counts from the start of the microbatch.
int64_t RowCounts::sum(int64_t expert, int64_t first, int64_t count) const {
  check(counts_ != nullptr, "the rows of {} are not counted yet", value_.name);
  const int32_t* of_expert = counts_ + expert * value_.shape[1] + first - value_.batch.start;
  return std::accumulate(of_expert, of_expert + count, int64_t{0});
}

int64_t RowCounts::rows_of_expert(const Region& box, int64_t expert) const {
  return sum(expert, box.start[1], box.extent[1]);
}

int64_t RowCounts::rows_before(const Region& box, int64_t expert, int64_t sequence) const {
  return sum(expert, box.start[1], sequence - box.start[1]);
}

int64_t RowCounts::rows(const Region& box) const {
  if (value_.packed->all && Program::has_all_experts(value_, box)) {
    return Program::most_rows(value_, box);
  }
  int64_t rows = 0;
  for (int64_t e = 0; e < box.extent[0]; ++e) {
    rows += rows_of_expert(box, box.start[0] + e);
  }
  return rows;
}

}  // namespace hidup
