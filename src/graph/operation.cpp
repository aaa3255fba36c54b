#include "graph/operation.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.h"
#include "graph/flops.h"
#include "graph/shape_rules.h"

namespace hidup {
namespace {

using Type = InputSpec::Type;

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
DimNames grouped_attention_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "sequence", "kv_head", "head", "column"};
}
DimNames no_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {};
}
DimNames routing_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"batch", "sequence", "choice"};
}
DimNames counts_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"expert", "batch"};
}
DimNames buffer_dims(const DimNames&, const Shape&, const OpAttributes&) {
  return {"expert", "batch", "capacity", "column"};
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

// Counts the scores and their product with the values: 2 x 2 flops per pair of positions and
// channel. A causal mask leaves (s + 1) / 2 keys per query on average.
double attention_flops(Shapes in, const Shape& output, const OpAttributes& attributes) {
  const auto s = static_cast<double>(in[0][1]);
  const double keys = std::get<AttentionAttributes>(attributes).causal ? (s + 1.0) / 2.0 : s;
  return 4.0 * keys * count(output);
}

double expert_matmul_flops(Shapes in, const Shape&, const OpAttributes&) {
  return 2.0 * count(in[0]) * static_cast<double>(in[1][2]);  // the most: all slots are taken
}

double combine_flops(Shapes in, const Shape& output, const OpAttributes&) {
  return 2.0 * static_cast<double>(elements(output) * in[1].back());
}

Shape attention_saved(const Shape& qkv) {
  return {qkv[0], qkv[3], qkv[1]};  // batch, heads, sequence
}
Shape grouped_attention_saved(const Shape& q) {
  return {q[0], q[2], q[3], q[1]};  // batch, kv_heads, group, sequence
}

// Returns the records in the order of OpKind.
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
       .inputs = {{.name = "x", .batch = 0}},
       .shape = positions_shape,
       .flops = per_element<1>},
      {.kind = OpKind::rotary,
       .name = "rotary",
       .inputs = {{.name = "x", .batch = 0}},
       .attributes = RotaryAttributes{},
       .shape = rotary_shape,
       .flops = per_element<3>,
       .cheap = true},
      {.kind = OpKind::prepend,
       .name = "prepend",
       .inputs = {{.name = "x", .batch = 0}, {.name = "token", .parameter = true}},
       .shape = prepend_shape,
       .flops = per_element<0>},
      {.kind = OpKind::first,
       .name = "first",
       .inputs = {{.name = "x", .batch = 0}},
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
      {.kind = OpKind::wide_matmul,
       .name = "wide_matmul",
       .inputs = {{"x"}, {.name = "weight", .parameter = true}},
       .output = Type::f32,
       .attributes = MatmulAttributes{},
       .shape = matmul_shape,
       .dims = matmul_dims,
       .flops = matmul_flops,
       .product = true},
      {.kind = OpKind::bias,
       .name = "bias",
       .inputs = {{"x"}, {.name = "bias", .parameter = true}},
       .shape = bias_shape,
       .flops = per_element<1>,
       .cheap = true},
      {.kind = OpKind::relu,
       .name = "relu",
       .inputs = {{"x"}},
       .shape = like_first,
       .flops = per_element<1>,
       .cheap = true,
       .takes_packed = true},
      {.kind = OpKind::gelu,
       .name = "gelu",
       .inputs = {{"x"}},
       .shape = like_first,
       .flops = per_element<10>,
       .cheap = true,
       .takes_packed = true},  // a cubic, an exponential, a quotient
      {.kind = OpKind::silu,
       .name = "silu",
       .inputs = {{"x"}},
       .shape = like_first,
       .flops = per_element<5>,
       .cheap = true,
       .takes_packed = true},  // an exponential, a sum, a quotient
      {.kind = OpKind::swiglu,
       .name = "swiglu",
       .inputs = {{"gate"}, {"up"}},
       .shape = add_shape,
       .flops = per_element<6>,
       .cheap = true,
       .takes_packed = true},  // silu, a product
      {.kind = OpKind::dropout,
       .name = "dropout",
       .inputs = {{"x"}},
       .attributes = DropoutAttributes{},
       .shape = like_first,
       .flops = per_element<2>,
       .cheap = true,
       .takes_packed = true,
       .training_only = true},
      {.kind = OpKind::add,
       .name = "add",
       .inputs = {{"a"}, {"b"}},
       .shape = add_shape,
       .flops = per_element<1>,
       .takes_packed = true},
      {.kind = OpKind::layer_norm,
       .name = "layer_norm",
       .inputs = {{"x"},
                  {.name = "weight", .parameter = true},
                  {.name = "bias", .parameter = true}},
       .attributes = LayerNormAttributes{},
       .shape = norm_shape,
       .flops = per_element<8>,
       .cheap = true,  // mean, variance, normalize, scale, shift
       .saved = {"mean", "rstd"}},
      {.kind = OpKind::rms_norm,
       .name = "rms_norm",
       .inputs = {{"x"}, {.name = "weight", .parameter = true}},
       .attributes = LayerNormAttributes{},
       .shape = norm_shape,
       .flops = per_element<4>,
       .cheap = true,  // mean square, normalize, scale
       .saved = {"rstd"}},
      {.kind = OpKind::attention,
       .name = "attention",
       .inputs = {{.name = "qkv", .batch = 0}},
       .attributes = AttentionAttributes{},
       .shape = attention_shape,
       .dims = attention_dims,
       .flops = attention_flops,
       .product = true,
       .saved = {"lse"},
       .saved_shape = attention_saved},
      {.kind = OpKind::grouped_attention,
       .name = "grouped_attention",
       .inputs = {{.name = "q", .batch = 0}, {"k"}, {"v"}},
       .attributes = AttentionAttributes{},
       .shape = grouped_attention_shape,
       .dims = grouped_attention_dims,
       .flops = attention_flops,
       .product = true,
       .saved = {"lse"},
       .saved_shape = grouped_attention_saved},
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
       .inputs = {{.name = "logits", .batch = 0}},
       .output = Type::i32,
       .attributes = RouteAttributes{},
       .shape = route_shape,
       .dims = routing_dims,
       .flops = per_element<4>},
      {.kind = OpKind::route_biased,
       .name = "route_biased",
       .inputs = {{.name = "logits", .batch = 0},
                  {.name = "bias", .type = Type::f32, .parameter = true, .learned = false}},
       .output = Type::i32,
       .attributes = RouteAttributes{},
       .shape = route_biased_shape,
       .dims = routing_dims,
       .flops = per_element<8>},
      {.kind = OpKind::route_chosen,
       .name = "route_chosen",
       .inputs = {{.name = "logits", .batch = 0},
                  {.name = "chosen", .type = Type::i32, .batch = 0}},
       .output = Type::i32,
       .attributes = RouteAttributes{},
       .shape = route_chosen_shape,
       .dims = routing_dims,
       .flops = per_output},
      {.kind = OpKind::gate,
       .name = "gate",
       .inputs = {{.name = "logits", .batch = 0}, {"routing", Type::i32}},
       .output = Type::f32,
       .attributes = GateAttributes{},
       .shape = gate_shape,
       .dims = routing_dims,
       .flops = per_element<4>},
      {.kind = OpKind::expert_counts,
       .name = "expert_counts",
       .inputs = {{.name = "routing", .type = Type::i32, .batch = 0}},
       .output = Type::i32,
       .attributes = ExpertAttributes{},
       .shape = expert_counts_shape,
       .dims = counts_dims,
       .flops = per_element<1>},
      {.kind = OpKind::dispatch,
       .name = "dispatch",
       .inputs = {{.name = "x", .batch = 0}, {"routing", Type::i32}},
       .attributes = ExpertAttributes{},
       .shape = dispatch_shape,
       .dims = buffer_dims,
       .flops = per_element<0>},
      {.kind = OpKind::expert_matmul,
       .name = "expert_matmul",
       .inputs = {{.name = "x", .batch = 1},
                  {.name = "weight", .parameter = true},
                  {"counts", Type::i32}},
       .shape = expert_matmul_shape,
       .dims = buffer_dims,
       .flops = expert_matmul_flops,
       .product = true,
       .takes_packed = true},
      {.kind = OpKind::expert_bias,
       .name = "expert_bias",
       .inputs = {{.name = "x", .batch = 1},
                  {.name = "bias", .parameter = true},
                  {"counts", Type::i32}},
       .shape = expert_bias_shape,
       .flops = per_element<1>,
       .cheap = true,
       .takes_packed = true},
      {.kind = OpKind::combine,
       .name = "combine",
       .inputs = {{.name = "buffer", .batch = 1},
                  {.name = "routing", .type = Type::i32, .batch = 0},
                  {.name = "weights", .type = Type::f32, .batch = 0}},
       .attributes = ExpertAttributes{},
       .shape = combine_shape,
       .dims = combine_dims,
       .flops = combine_flops},
      {.kind = OpKind::round_counts,
       .name = "round_counts",
       .inputs = {{.name = "all", .type = Type::i32, .batch = 1}},
       .output = Type::i32,
       .attributes = RoundAttributes{},
       .shape = round_counts_shape,
       .flops = per_element<1>},
      {.kind = OpKind::expert_pack,
       .name = "expert_pack",
       .inputs = {{.name = "x", .batch = 0},
                  {"routing", Type::i32},
                  {.name = "counts", .type = Type::i32, .batch = 1}},
       .attributes = PackAttributes{},
       .shape = expert_pack_shape,
       .dims = buffer_dims,
       .flops = per_element<0>},
      {.kind = OpKind::expert_unpack,
       .name = "expert_unpack",
       .inputs = {{.name = "rows", .batch = 1},
                  {.name = "routing", .type = Type::i32, .batch = 0},
                  {.name = "weights", .type = Type::f32, .batch = 0},
                  {"counts", Type::i32}},
       .attributes = PackAttributes{},
       .shape = expert_unpack_shape,
       .dims = combine_dims,
       .flops = combine_flops,
       .takes_packed = true},
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

bool is_route(const Op& op) {
  return std::holds_alternative<RouteAttributes>(op.attributes);
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
