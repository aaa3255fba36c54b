#include "graph/flops.h"

#include <cstddef>
#include <vector>

#include "graph/operation.h"

namespace hidup {
namespace {

double bytes_of(const Shape& shape) {
  return 4.0 * static_cast<double>(elements(shape));
}

}  // namespace

MatmulExtents matmul_extents(const Shape& x, const Shape& w, const Attributes& attributes) {
  const auto [summed, columns] = weight_shape(w, attributes);
  const Shape rows(x.begin(), x.end() - static_cast<std::ptrdiff_t>(summed.size()));
  return {.m = elements(rows), .k = elements(summed), .n = elements(columns)};
}

double forward_flops(OpKind kind, std::span<const Shape> in, const Shape& output,
                     const Attributes& attributes) {
  const auto count = static_cast<double>(elements(in[0]));
  switch (kind) {
    case OpKind::matmul: {
      const MatmulExtents e = matmul_extents(in[0], in[1], attributes);
      return 2.0 * static_cast<double>(e.m) * static_cast<double>(e.k) * static_cast<double>(e.n);
    }
    case OpKind::attention: {
      // Scores and their product with the values: 2 x 2 flops per pair of positions
      // and channel; a causal mask leaves (s + 1) / 2 keys per query on average.
      const auto s = static_cast<double>(in[0][1]);
      const double keys = attributes.at("causal") != 0.0 ? (s + 1.0) / 2.0 : s;
      return 4.0 * keys * static_cast<double>(elements(output));
    }
    case OpKind::layer_norm:
      return 8.0 * count;  // mean, variance, normalize, scale, shift
    case OpKind::cross_entropy:
      return 4.0 * count;  // maximum, subtract, exponential, sum
    case OpKind::gelu:
      return 10.0 * count;  // a cubic, an exponential, a quotient
    case OpKind::dropout:
      return 2.0 * count;
    case OpKind::embedding:
      return static_cast<double>(elements(output));
    case OpKind::positions:
    case OpKind::bias:
    case OpKind::relu:
    case OpKind::add:
    case OpKind::expert_bias:
    case OpKind::expert_counts:
      return count;
    case OpKind::expert_matmul:  // at most: as many as all slots take
      return 2.0 * count * static_cast<double>(in[1][2]);
    case OpKind::route:
    case OpKind::gate:
      return 4.0 * count;
    case OpKind::dispatch:
      return 0.0;
    case OpKind::combine:
      return 2.0 * static_cast<double>(elements(output) * in[1].back());
  }
  return 0.0;
}

double model_flops(const Graph& graph) {
  double flops = 0.0;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::matmul || op.kind == OpKind::attention ||
        op.kind == OpKind::expert_matmul) {
      std::vector<Shape> inputs;
      for (const TensorId input : op.inputs) {
        inputs.push_back(graph.tensor(input).shape);
      }
      flops += 3.0 * forward_flops(op.kind, inputs, graph.tensor(op.output).shape, op.attributes);
    }
  }
  return flops;
}

double forward_bytes(std::span<const Shape> inputs, const Shape& output) {
  double bytes = bytes_of(output);
  for (const Shape& shape : inputs) {
    bytes += bytes_of(shape);
  }
  return bytes;
}

}  // namespace hidup
