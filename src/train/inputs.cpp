#include "train/inputs.h"

#include <algorithm>

namespace hidup {
namespace {

// Columns start .. start + count - 1 of rows of `width`.
std::vector<int32_t> columns_of(const std::vector<int32_t>& rows, int64_t width, int64_t start,
                                int64_t count) {
  std::vector<int32_t> columns;
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    columns.insert(columns.end(), row + start, row + start + count);
  }
  return columns;
}

}  // namespace

void fill_inputs(const Program& program, int64_t rank, const Batches& batches, int64_t first,
                 StepInputs& inputs, int64_t end) {
  const int64_t sequence = batches.sequence();
  const auto fill_parts = [&](const std::vector<ValueId>& values, bool targets,
                              std::vector<std::vector<int32_t>>& parts) {
    parts.clear();
    for (const ValueId id : values) {
      const Region part = program.region(id, rank);
      std::vector<int32_t> rows[2];  // tokens, targets
      rows[0].resize(static_cast<size_t>(part.extent[0] * sequence));
      rows[1].resize(rows[0].size());
      const int64_t sample = first + part.start[0];
      batches.fill(sample, part.extent[0], rows[0].data(), rows[1].data());
      const int64_t with_targets = std::clamp<int64_t>(end - sample, 0, part.extent[0]);
      std::fill(rows[1].begin() + with_targets * sequence, rows[1].end(), -1);
      parts.push_back(columns_of(rows[targets ? 1 : 0], sequence, part.start[1], part.extent[1]));
    }
  };
  fill_parts(program.tokens, false, inputs.tokens);
  fill_parts(program.targets, true, inputs.targets);
}

}  // namespace hidup
