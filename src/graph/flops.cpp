#include "graph/flops.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "graph/operation.h"

namespace hidup {

WeightShape weight_shape(const Shape& weight, const MatmulAttributes& attributes) {
  const auto contract = std::min(static_cast<size_t>(attributes.contract), weight.size());
  const size_t first = attributes.transposed ? weight.size() - contract : 0;
  WeightShape shape;
  for (size_t d = 0; d < weight.size(); ++d) {
    (d >= first && d < first + contract ? shape.summed : shape.columns).push_back(weight[d]);
  }
  return shape;
}

MatmulExtents matmul_extents(const Shape& x, const Shape& w, const MatmulAttributes& attributes) {
  const auto [summed, columns] = weight_shape(w, attributes);
  const Shape rows(x.begin(), x.end() - static_cast<std::ptrdiff_t>(summed.size()));
  return {.m = elements(rows), .k = elements(summed), .n = elements(columns)};
}

double forward_flops(OpKind kind, std::span<const Shape> inputs, const Shape& output,
                     const OpAttributes& attributes) {
  return spec_of(kind).flops(inputs, output, attributes);
}

double forward_flops(const Graph& graph, const Op& op) {
  std::vector<Shape> inputs;
  for (const TensorId input : op.inputs) {
    inputs.push_back(graph.tensor(input).shape);
  }
  return forward_flops(op.kind, inputs, graph.tensor(op.output).shape, op.attributes);
}

double model_flops(const Graph& graph) {
  double flops = 0.0;
  for (const Op& op : graph.ops()) {
    if (spec_of(op.kind).product) {
      flops += 3.0 * forward_flops(graph, op);
    }
  }
  return flops;
}

}  // namespace hidup
