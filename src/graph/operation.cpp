#include "graph/operation.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.h"
#include "graph/flops.h"

namespace hidup {
namespace {

using Shapes = std::span<const Shape>;
using Type = InputSpec::Type;

void expect(bool fits, std::string_view wanted, Shapes inputs) {
  if (fits) {
    return;
  }
  std::string found;
  for (const Shape& shape : inputs) {
    found += (found.empty() ? "" : " and ") + to_string(shape);
  }
  fail(ExitCode::usage, "expected {}, found {}", wanted, found);
}

Shape leading(const Shape& shape, size_t dims) {
  return {shape.begin(), shape.begin() + static_cast<Shape::difference_type>(dims)};
}

bool ends_with(const Shape& shape, const Shape& tail) {
  return shape.size() >= tail.size() && std::equal(tail.rbegin(), tail.rend(), shape.rbegin());
}

// Shape rules.

Shape like_first(Shapes in, const OpAttributes&) {
  return in[0];
}

Shape embedding_shape(Shapes in, const OpAttributes&) {
  expect(in[1].size() == 2, "tokens[..] and table[vocab, hidden]", in);
  Shape shape = in[0];
  shape.push_back(in[1][1]);
  return shape;
}

Shape positions_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 3 && in[0][2] % 2 == 0, "x[batch, sequence, hidden], hidden even", in);
  return in[0];
}

Shape prepend_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 3 && in[1] == Shape{in[0][2]}, "x[batch, sequence, n] and token[n]", in);
  return {in[0][0], in[0][1] + 1, in[0][2]};
}

Shape first_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 3 && in[0][1] > 0, "x[batch, sequence, n] with a position", in);
  return {in[0][0], in[0][2]};
}

Shape matmul_shape(Shapes in, const OpAttributes& attributes) {
  const auto& matmul = std::get<MatmulAttributes>(attributes);
  const Shape& x = in[0];
  const auto [summed, columns] = weight_shape(in[1], matmul);
  expect(!columns.empty() && ends_with(x, summed),
         fmt::format("x[.., k] and weight{} with k of {} dimension(s)",
                     matmul.transposed ? "[.., k]" : "[k, ..]", matmul.contract),
         in);
  Shape shape = leading(x, x.size() - summed.size());
  shape.insert(shape.end(), columns.begin(), columns.end());
  return shape;
}

Shape bias_shape(Shapes in, const OpAttributes&) {
  expect(!in[1].empty() && ends_with(in[0], in[1]), "x[.., n] and bias[n]", in);
  return in[0];
}

Shape add_shape(Shapes in, const OpAttributes&) {
  expect(in[0] == in[1], "two tensors of one shape", in);
  return in[0];
}

Shape layer_norm_shape(Shapes in, const OpAttributes&) {
  expect(in[1].size() == 1 && in[1] == in[2] && ends_with(in[0], in[1]),
         "x[.., n], weight[n] and bias[n]", in);
  return in[0];
}

Shape attention_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 5 && in[0][2] == 3, "qkv[batch, sequence, 3, heads, head]", in);
  return {in[0][0], in[0][1], in[0][3], in[0][4]};
}

Shape cross_entropy_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() >= 2 && leading(in[0], in[0].size() - 1) == in[1],
         "logits[.., vocab] and targets[..]", in);
  return {};
}

Shape route_shape(Shapes in, const OpAttributes& attributes) {
  const int64_t choices = std::get<RouteAttributes>(attributes).choices;
  expect(in[0].size() == 3 && in[0][2] >= choices, "logits[batch, sequence, experts]", in);
  return {in[0][0], in[0][1], choices};
}

// Experts' buffers are [batch, experts, capacity, width].

Shape gate_shape(Shapes in, const OpAttributes& attributes) {
  expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2) &&
             in[0][2] == std::get<GateAttributes>(attributes).experts,
         "logits[batch, sequence, experts] and routing[batch, sequence, choices]", in);
  return in[1];
}

Shape expert_counts_shape(Shapes in, const OpAttributes& attributes) {
  return {in[0][0], std::get<ExpertAttributes>(attributes).experts};
}

Shape dispatch_shape(Shapes in, const OpAttributes& attributes) {
  const auto& [capacity, experts] = std::get<ExpertAttributes>(attributes);
  expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2),
         "x[batch, sequence, width] and routing[batch, sequence, choices]", in);
  return {in[0][0], experts, capacity, in[0][2]};
}

Shape expert_matmul_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 4 && in[1].size() == 3 && in[0][1] == in[1][0] && in[0][3] == in[1][1] &&
             leading(in[0], 2) == in[2],
         "x[batch, experts, capacity, k], weight[experts, k, n] and counts[batch, experts]", in);
  return {in[0][0], in[0][1], in[0][2], in[1][2]};
}

Shape expert_bias_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 4 && in[1] == Shape{in[0][1], in[0][3]} && leading(in[0], 2) == in[2],
         "x[batch, experts, capacity, n], bias[experts, n] and counts[batch, experts]", in);
  return in[0];
}

Shape combine_shape(Shapes in, const OpAttributes& attributes) {
  const auto& [capacity, experts] = std::get<ExpertAttributes>(attributes);
  expect(in[0].size() == 4 && in[1].size() == 3 && in[1] == in[2] && in[0][0] == in[1][0] &&
             in[0][1] == experts && in[0][2] == capacity,
         "buffer[batch, experts, capacity, width] of the routing's experts and capacity, "
         "routing[batch, sequence, choices] and weights like it",
         in);
  return {in[1][0], in[1][1], in[0][3]};
}

// Names of dimensions.

DimNames embedding_dims(const DimNames& first, const Shape&, const OpAttributes&) {
  DimNames dims = first;
  dims.emplace_back("column");
  return dims;
}

DimNames first_dims(const DimNames& first, const Shape&, const OpAttributes&) {
  return {first[0], first[2]};
}

DimNames matmul_dims(const DimNames& first, const Shape& output, const OpAttributes& attributes) {
  DimNames dims = first;
  dims.resize(dims.size() - static_cast<size_t>(std::get<MatmulAttributes>(attributes).contract));
  const size_t columns = output.size() - dims.size();
  for (size_t c = 0; c < columns; ++c) {
    dims.push_back(columns == 1 ? "column" : fmt::format("column({})", c));
  }
  return dims;
}

DimNames attention_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "sequence", "head", "column"};
}
DimNames no_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {};
}
DimNames routing_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "sequence", "choice"};
}
DimNames counts_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "expert"};
}
DimNames buffer_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "expert", "capacity", "column"};
}
DimNames combine_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "sequence", "column"};
}

// Flops.

double count(const Shape& shape) {
  return static_cast<double>(elements(shape));
}

template <int kFlops>
double per_element(Shapes in, const Shape&, const OpAttributes&) {
  return kFlops * count(in[0]);
}

double per_output(Shapes, const Shape& output, const OpAttributes&) {
  return count(output);
}

double matmul_flops(Shapes in, const Shape&, const OpAttributes& attributes) {
  const MatmulExtents e = matmul_extents(in[0], in[1], std::get<MatmulAttributes>(attributes));
  return 2.0 * static_cast<double>(e.m) * static_cast<double>(e.k) * static_cast<double>(e.n);
}

// Scores and their product with the values: 2 x 2 flops per pair of positions and channel; a causal
// mask leaves (s + 1) / 2 keys per query on average.
double attention_flops(Shapes in, const Shape& output, const OpAttributes& attributes) {
  const auto s = static_cast<double>(in[0][1]);
  const double keys = std::get<AttentionAttributes>(attributes).causal ? (s + 1.0) / 2.0 : s;
  return 4.0 * keys * count(output);
}

double expert_matmul_flops(Shapes in, const Shape&, const OpAttributes&) {
  return 2.0 * count(in[0]) * static_cast<double>(in[1][2]);  // at most: where all slots are taken
}

double combine_flops(Shapes in, const Shape& output, const OpAttributes&) {
  return 2.0 * static_cast<double>(elements(output) * in[1].back());
}

Shape attention_saved(const Shape& qkv) {
  return {qkv[0], qkv[3], qkv[1]};  // batch, heads, sequence
}

// In the order of OpKind.
const std::vector<OperationSpec>& records() {
  static const std::vector<OperationSpec> kRecords = {
      {.kind = OpKind::embedding,
       .name = "embedding",
       .inputs = {{"tokens", Type::i32}, {.name = "table", .parameter = true}},
       .attributes = EmbeddingAttributes{},
       .shape = embedding_shape,
       .dims = embedding_dims,
       .flops = per_output},
      {.kind = OpKind::positions,
       .name = "positions",
       .inputs = {{"x"}},
       .shape = positions_shape,
       .flops = per_element<1>},
      {.kind = OpKind::prepend,
       .name = "prepend",
       .inputs = {{"x"}, {.name = "token", .parameter = true}},
       .shape = prepend_shape,
       .flops = per_element<0>},
      {.kind = OpKind::first,
       .name = "first",
       .inputs = {{"x"}},
       .shape = first_shape,
       .dims = first_dims,
       .flops = per_element<0>},
      {.kind = OpKind::matmul,
       .name = "matmul",
       .inputs = {{"x"}, {.name = "weight", .parameter = true}},
       .attributes = MatmulAttributes{},
       .shape = matmul_shape,
       .dims = matmul_dims,
       .flops = matmul_flops,
       .product = true},
      {.kind = OpKind::bias,
       .name = "bias",
       .inputs = {{"x"}, {.name = "bias", .parameter = true}},
       .shape = bias_shape,
       .flops = per_element<1>},
      {.kind = OpKind::relu,
       .name = "relu",
       .inputs = {{"x"}},
       .shape = like_first,
       .flops = per_element<1>},
      {.kind = OpKind::gelu,
       .name = "gelu",
       .inputs = {{"x"}},
       .shape = like_first,
       .flops = per_element<10>},  // a cubic, an exponential, a quotient
      {.kind = OpKind::silu,
       .name = "silu",
       .inputs = {{"x"}},
       .shape = like_first,
       .flops = per_element<5>},  // an exponential, a sum, a quotient
      {.kind = OpKind::dropout,
       .name = "dropout",
       .inputs = {{"x"}},
       .attributes = DropoutAttributes{},
       .shape = like_first,
       .flops = per_element<2>,
       .training_only = true},
      {.kind = OpKind::add,
       .name = "add",
       .inputs = {{"a"}, {"b"}},
       .shape = add_shape,
       .flops = per_element<1>},
      {.kind = OpKind::layer_norm,
       .name = "layer_norm",
       .inputs = {{"x"},
                  {.name = "weight", .parameter = true},
                  {.name = "bias", .parameter = true}},
       .attributes = LayerNormAttributes{},
       .shape = layer_norm_shape,
       .flops = per_element<8>,  // mean, variance, normalize, scale, shift
       .saved = {"mean", "rstd"}},
      {.kind = OpKind::attention,
       .name = "attention",
       .inputs = {{"qkv"}},
       .attributes = AttentionAttributes{},
       .shape = attention_shape,
       .dims = attention_dims,
       .flops = attention_flops,
       .product = true,
       .saved = {"lse"},
       .saved_shape = attention_saved},
      {.kind = OpKind::cross_entropy,
       .name = "cross_entropy",
       .inputs = {{"logits"}, {"targets", Type::i32}},
       .output = Type::f32,
       .shape = cross_entropy_shape,
       .dims = no_dims,
       .flops = per_element<4>,  // maximum, subtract, exponential, sum
       .saved = {"lse"}},
      {.kind = OpKind::route,
       .name = "route",
       .inputs = {{"logits"}},
       .output = Type::i32,
       .attributes = RouteAttributes{},
       .shape = route_shape,
       .dims = routing_dims,
       .flops = per_element<4>},
      {.kind = OpKind::gate,
       .name = "gate",
       .inputs = {{"logits"}, {"routing", Type::i32}},
       .output = Type::f32,
       .attributes = GateAttributes{},
       .shape = gate_shape,
       .dims = routing_dims,
       .flops = per_element<4>},
      {.kind = OpKind::expert_counts,
       .name = "expert_counts",
       .inputs = {{"routing", Type::i32}},
       .output = Type::i32,
       .attributes = ExpertAttributes{},
       .shape = expert_counts_shape,
       .dims = counts_dims,
       .flops = per_element<1>},
      {.kind = OpKind::dispatch,
       .name = "dispatch",
       .inputs = {{"x"}, {"routing", Type::i32}},
       .attributes = ExpertAttributes{},
       .shape = dispatch_shape,
       .dims = buffer_dims,
       .flops = per_element<0>},
      {.kind = OpKind::expert_matmul,
       .name = "expert_matmul",
       .inputs = {{"x"}, {.name = "weight", .parameter = true}, {"counts", Type::i32}},
       .shape = expert_matmul_shape,
       .dims = buffer_dims,
       .flops = expert_matmul_flops,
       .product = true},
      {.kind = OpKind::expert_bias,
       .name = "expert_bias",
       .inputs = {{"x"}, {.name = "bias", .parameter = true}, {"counts", Type::i32}},
       .shape = expert_bias_shape,
       .flops = per_element<1>},
      {.kind = OpKind::combine,
       .name = "combine",
       .inputs = {{"buffer"}, {"routing", Type::i32}, {"weights", Type::f32}},
       .attributes = ExpertAttributes{},
       .shape = combine_shape,
       .dims = combine_dims,
       .flops = combine_flops},
  };
  return kRecords;
}

}  // namespace

std::span<const OperationSpec> all_operations() {
  return records();
}

const OperationSpec& spec_of(OpKind kind) {
  return records().at(static_cast<size_t>(kind));
}

const OperationSpec* find_operation(std::string_view name) {
  const auto found = std::ranges::find(records(), name, &OperationSpec::name);
  return found == records().end() ? nullptr : &*found;
}

Shape infer_shape(OpKind kind, Shapes inputs, const OpAttributes& attributes) {
  const OperationSpec& spec = spec_of(kind);
  if (inputs.size() != spec.inputs.size()) {
    fail(ExitCode::usage, "{} takes {} input(s), found {}", spec.name, spec.inputs.size(),
         inputs.size());
  }
  check_attributes(attributes);
  return spec.shape(inputs, attributes);
}

DimNames infer_dims(OpKind kind, const DimNames& first, const Shape& output,
                    const OpAttributes& attributes) {
  const OperationSpec& spec = spec_of(kind);
  return spec.dims == nullptr ? first : spec.dims(first, output, attributes);
}

bool has_backward(const Op& op) {
  const auto* route = std::get_if<RouteAttributes>(&op.attributes);
  return !spec_of(op.kind).integer_output() || (route != nullptr && route->has_losses());
}

Shape saved_shape(OpKind kind, const Shape& first) {
  const OperationSpec& spec = spec_of(kind);
  return spec.saved_shape == nullptr ? leading(first, first.size() - 1) : spec.saved_shape(first);
}

}  // namespace hidup
