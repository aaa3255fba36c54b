#include "program/sizes.h"

#include <algorithm>

namespace hidup {
namespace {

// Count the elements of the first `count` dimensions, and of the others.
int64_t leading(const Shape& shape, int64_t count) {
  return elements(Shape(shape.begin(), shape.begin() + count));
}
int64_t trailing(const Shape& shape, int64_t count) {
  return elements(Shape(shape.begin() + count, shape.end()));
}

}  // namespace

Sizes rows_and_columns(const InstructionAttributes&, std::span<const Shape> in,
                       std::span<const Shape> out) {
  Shape largest = out.empty() ? in[0] : out[0];
  for (const Shape& shape : in) {
    largest = elements(shape) > elements(largest) ? shape : largest;
  }
  const int64_t columns = largest.empty() ? 1 : largest.back();
  return {columns == 0 ? 0 : elements(largest) / columns, columns};
}

Sizes tensors_and_elements(const InstructionAttributes&, std::span<const Shape> in,
                           std::span<const Shape>) {
  int64_t total = 0;
  for (const Shape& shape : in) {
    total += elements(shape);
  }
  return {static_cast<int64_t>(in.size()), total};
}

Sizes product_sizes(const InstructionAttributes& matmul, const Shape& x, const Shape& y) {
  const int64_t row_dims =
      static_cast<int64_t>(x.size()) - std::get<MatmulAttributes>(matmul).contract;
  return {leading(x, row_dims), trailing(x, row_dims), trailing(y, row_dims)};
}

Sizes expert_sizes(const Shape& x, const Shape& y) {
  return {x[0], x[1] * x[2], x[3], y[3]};
}

Sizes attention_sizes(const Shape& y, const Shape& lse) {
  const int64_t sequence = lse.back();
  return {sequence == 0 ? 0 : elements(lse) / sequence, sequence, y.back()};
}

}  // namespace hidup
