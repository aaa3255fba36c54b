// Rows of experts that lie packed (PackedRows), on the ranks of a program; for this folder only.
#pragma once

#include <cstdint>

#include "core/region.h"
#include "program/program.h"

namespace hidup {

// The rows of boxes [experts, batch, rows, width] of packed values, by the counts of all experts
// and sequences of the microbatch.
class RowCounts {
 public:
  // `value`: a packed value. `counts`: i32 [experts, batch], which outlives this; null where every
  // box has all experts.
  RowCounts(const Value& value, const int32_t* counts) : value_(value), counts_(counts) {}

  // Returns the rows in use of the box.
  int64_t rows(const Region& box) const;
  // Returns those of one expert, numbered as in the model.
  int64_t rows_of_expert(const Region& box, int64_t expert) const;
  // Returns those of one expert in the sequences of `box` before the sequence, numbered as in the
  // step.
  int64_t rows_before(const Region& box, int64_t expert, int64_t sequence) const;

 private:
  int64_t sum(int64_t expert, int64_t first, int64_t count) const;

  const Value& value_;
  const int32_t* counts_;
};

}  // namespace hidup
