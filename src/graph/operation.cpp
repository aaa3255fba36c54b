#include "graph/operation.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/limits.h"

namespace hidup {
namespace {

const std::array kOperations = {
    OperationSpec{.kind = OpKind::embedding,
                  .name = "embedding",
                  .inputs = {"tokens", "table"},
                  .integer_inputs = {true, false},
                  .attributes = {{"scale", 1.0}},
                  .backward_needs_input = {true, false}},
    OperationSpec{.kind = OpKind::positions,
                  .name = "positions",
                  .inputs = {"x"},
                  .backward_needs_input = {false},
                  .in_place = true},
    OperationSpec{.kind = OpKind::matmul,
                  .name = "matmul",
                  .inputs = {"x", "weight"},
                  .attributes = {{"contract", 1.0}, {"transposed", 0.0}},
                  .backward_needs_input = {true, true}},
    OperationSpec{.kind = OpKind::bias,
                  .name = "bias",
                  .inputs = {"x", "bias"},
                  .backward_needs_input = {false, false},
                  .in_place = true},
    OperationSpec{.kind = OpKind::relu,
                  .name = "relu",
                  .inputs = {"x"},
                  .backward_needs_input = {false},
                  .backward_needs_output = true,
                  .in_place = true},
    OperationSpec{
        .kind = OpKind::gelu, .name = "gelu", .inputs = {"x"}, .backward_needs_input = {true}},
    OperationSpec{.kind = OpKind::dropout,
                  .name = "dropout",
                  .inputs = {"x"},
                  .attributes = {{"p", 0.0}},
                  .backward_needs_input = {false},
                  .in_place = true},
    OperationSpec{.kind = OpKind::add,
                  .name = "add",
                  .inputs = {"a", "b"},
                  .backward_needs_input = {false, false},
                  .in_place = true},
    OperationSpec{.kind = OpKind::layer_norm,
                  .name = "layer_norm",
                  .inputs = {"x", "weight", "bias"},
                  .attributes = {{"epsilon", 1e-5}},
                  .backward_needs_input = {true, true, false},
                  .saved = {"mean", "rstd"}},
    OperationSpec{.kind = OpKind::attention,
                  .name = "attention",
                  .inputs = {"qkv"},
                  .attributes = {{"causal", 1.0}},
                  .backward_needs_input = {true},
                  .backward_needs_output = true,
                  .saved = {"lse"}},
    OperationSpec{.kind = OpKind::cross_entropy,
                  .name = "cross_entropy",
                  .inputs = {"logits", "targets"},
                  .integer_inputs = {false, true},
                  .backward_needs_input = {true, true},
                  .saved = {"lse"}},
    OperationSpec{.kind = OpKind::route,
                  .name = "route",
                  .inputs = {"logits"},
                  .integer_output = true,
                  .attributes = {{"capacity", 0.0}, {"choices", 1.0}, {"hash", 0.0}},
                  .backward_needs_input = {false}},
    OperationSpec{.kind = OpKind::gate,
                  .name = "gate",
                  .inputs = {"logits", "routing"},
                  .integer_inputs = {false, true},
                  .attributes = {{"capacity", 0.0}, {"experts", 0.0}},
                  .backward_needs_input = {true, true}},
    OperationSpec{.kind = OpKind::expert_counts,
                  .name = "expert_counts",
                  .inputs = {"routing"},
                  .integer_inputs = {true},
                  .integer_output = true,
                  .attributes = {{"capacity", 0.0}, {"experts", 0.0}},
                  .backward_needs_input = {false}},
    OperationSpec{.kind = OpKind::dispatch,
                  .name = "dispatch",
                  .inputs = {"x", "routing"},
                  .integer_inputs = {false, true},
                  .attributes = {{"capacity", 0.0}, {"experts", 0.0}},
                  .backward_needs_input = {false, true}},
    OperationSpec{.kind = OpKind::expert_matmul,
                  .name = "expert_matmul",
                  .inputs = {"x", "weight", "counts"},
                  .integer_inputs = {false, false, true},
                  .backward_needs_input = {true, true, true}},
    OperationSpec{.kind = OpKind::expert_bias,
                  .name = "expert_bias",
                  .inputs = {"x", "bias", "counts"},
                  .integer_inputs = {false, false, true},
                  .backward_needs_input = {false, false, true},
                  .in_place = true},
    OperationSpec{.kind = OpKind::combine,
                  .name = "combine",
                  .inputs = {"buffer", "routing", "weights"},
                  .integer_inputs = {false, true, false},
                  .attributes = {{"capacity", 0.0}, {"experts", 0.0}},
                  .backward_needs_input = {true, true, true}},
};

void expect(bool fits, std::string_view wanted, std::span<const Shape> inputs) {
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

bool is_count(double value) {
  return value >= 1.0 && value <= 1e9 && value == static_cast<double>(static_cast<int64_t>(value));
}

Shape infer_matmul(std::span<const Shape> in, const Attributes& attributes) {
  if (!is_count(attributes.at("contract"))) {
    fail(ExitCode::usage, "expected contract to be a whole number from 1, found {}",
         attributes.at("contract"));
  }
  const Shape& x = in[0];
  const auto [summed, columns] = weight_shape(in[1], attributes);
  expect(!columns.empty() && ends_with(x, summed),
         fmt::format("x[.., k] and weight{} with k of {} dimension(s)",
                     attributes.at("transposed") != 0.0 ? "[.., k]" : "[k, ..]",
                     attributes.at("contract")),
         in);
  Shape shape = leading(x, x.size() - summed.size());
  shape.insert(shape.end(), columns.begin(), columns.end());
  return shape;
}

// Values that no kernel can compute with.
void check_attributes(const Attributes& attributes) {
  const auto expect_value = [&](std::string_view name, std::string_view wanted, auto holds) {
    const auto found = attributes.find(name);
    if (found != attributes.end() && !holds(found->second)) {
      fail(ExitCode::usage, "expected {} {}, found {}", name, wanted, found->second);
    }
  };
  expect_value("p", fmt::format("of 0 or from {} to {}", kMinDropout, kMaxDropout),
               [](double p) { return p == 0.0 || (p >= kMinDropout && p <= kMaxDropout); });
  // Kernels have them in single precision.
  expect_value("epsilon", "from 1e-30 to 1",
               [](double epsilon) { return epsilon >= 1e-30 && epsilon <= 1.0; });
  expect_value("scale", "from 1e-30 to 1e30",
               [](double scale) { return scale >= 1e-30 && scale <= 1e30; });
  for (const char* flag : {"causal", "hash", "transposed"}) {
    expect_value(flag, "0 or 1", [](double value) { return value == 0.0 || value == 1.0; });
  }
}

Shape infer_route(std::span<const Shape> in, const Attributes& attributes) {
  const double choices = attributes.at("choices");
  expect(in[0].size() == 3 && in[0][2] >= choices, "logits[batch, sequence, experts]", in);
  if (choices != 1.0 && choices != 2.0) {
    fail(ExitCode::usage, "expected choices of 1 or 2, found {}", choices);
  }
  if (!is_count(attributes.at("capacity"))) {
    fail(ExitCode::usage, "expected a capacity of at least 1, found {}", attributes.at("capacity"));
  }
  return {in[0][0], in[0][1], static_cast<int64_t>(choices)};
}

// What the operations on experts' buffers take: [batch, experts, capacity, width].
Shape infer_experts(OpKind kind, std::span<const Shape> in, const Attributes& attributes) {
  const auto whole = [&](const char* name) { return static_cast<int64_t>(attributes.at(name)); };
  switch (kind) {
    case OpKind::gate:
      expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2) &&
                 in[0][2] == whole("experts"),
             "logits[batch, sequence, experts] and routing[batch, sequence, choices]", in);
      return in[1];
    case OpKind::expert_counts:
      return {in[0][0], whole("experts")};
    case OpKind::dispatch:
      expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2),
             "x[batch, sequence, width] and routing[batch, sequence, choices]", in);
      return {in[0][0], whole("experts"), whole("capacity"), in[0][2]};
    case OpKind::expert_matmul:
      expect(in[0].size() == 4 && in[1].size() == 3 && in[0][1] == in[1][0] &&
                 in[0][3] == in[1][1] && leading(in[0], 2) == in[2],
             "x[batch, experts, capacity, k], weight[experts, k, n] and counts[batch, experts]",
             in);
      return {in[0][0], in[0][1], in[0][2], in[1][2]};
    case OpKind::expert_bias:
      expect(in[0].size() == 4 && in[1] == Shape{in[0][1], in[0][3]} && leading(in[0], 2) == in[2],
             "x[batch, experts, capacity, n], bias[experts, n] and counts[batch, experts]", in);
      return in[0];
    default:
      expect(in[0].size() == 4 && in[1].size() == 3 && in[1] == in[2] && in[0][0] == in[1][0] &&
                 in[0][1] == whole("experts") && in[0][2] == whole("capacity"),
             "buffer[batch, experts, capacity, width] of the routing's experts and capacity, "
             "routing[batch, sequence, choices] and weights like it",
             in);
      return {in[1][0], in[1][1], in[0][3]};
  }
}

}  // namespace

WeightShape weight_shape(const Shape& weight, const Attributes& attributes) {
  const auto contract = std::min(static_cast<size_t>(attributes.at("contract")), weight.size());
  const size_t first = attributes.at("transposed") != 0.0 ? weight.size() - contract : 0;
  WeightShape shape;
  for (size_t d = 0; d < weight.size(); ++d) {
    (d >= first && d < first + contract ? shape.summed : shape.columns).push_back(weight[d]);
  }
  return shape;
}

std::span<const OperationSpec> all_operations() {
  return kOperations;
}

const OperationSpec& spec_of(OpKind kind) {
  return kOperations.at(static_cast<size_t>(kind));
}

const OperationSpec* find_operation(std::string_view name) {
  const auto* found = std::ranges::find(kOperations, name, &OperationSpec::name);
  return found == kOperations.end() ? nullptr : found;
}

Shape infer_shape(OpKind kind, std::span<const Shape> in, const Attributes& attributes) {
  const OperationSpec& spec = spec_of(kind);
  if (in.size() != spec.inputs.size()) {
    fail(ExitCode::usage, "{} takes {} input(s), found {}", spec.name, spec.inputs.size(),
         in.size());
  }
  check_attributes(attributes);
  switch (kind) {
    case OpKind::embedding: {
      expect(in[1].size() == 2, "tokens[..] and table[vocab, hidden]", in);
      Shape shape = in[0];
      shape.push_back(in[1][1]);
      return shape;
    }
    case OpKind::positions:
      expect(in[0].size() == 3 && in[0][2] % 2 == 0, "x[batch, sequence, hidden], hidden even", in);
      return in[0];
    case OpKind::matmul:
      return infer_matmul(in, attributes);
    case OpKind::bias:
      expect(!in[1].empty() && ends_with(in[0], in[1]), "x[.., n] and bias[n]", in);
      return in[0];
    case OpKind::relu:
    case OpKind::gelu:
    case OpKind::dropout:
      return in[0];
    case OpKind::add:
      expect(in[0] == in[1], "two tensors of one shape", in);
      return in[0];
    case OpKind::layer_norm:
      expect(in[1].size() == 1 && in[1] == in[2] && ends_with(in[0], in[1]),
             "x[.., n], weight[n] and bias[n]", in);
      return in[0];
    case OpKind::attention:
      expect(in[0].size() == 5 && in[0][2] == 3, "qkv[batch, sequence, 3, heads, head]", in);
      return {in[0][0], in[0][1], in[0][3], in[0][4]};
    case OpKind::cross_entropy:
      expect(in[0].size() >= 2 && leading(in[0], in[0].size() - 1) == in[1],
             "logits[.., vocab] and targets[..]", in);
      return {};
    case OpKind::route:
      return infer_route(in, attributes);
    case OpKind::gate:
    case OpKind::expert_counts:
    case OpKind::dispatch:
    case OpKind::expert_matmul:
    case OpKind::expert_bias:
    case OpKind::combine:
      return infer_experts(kind, in, attributes);
  }
  return {};
}

std::vector<std::string> infer_dims(OpKind kind, std::span<const std::vector<std::string>> in,
                                    const Shape& output, const Attributes& attributes) {
  std::vector<std::string> dims = in[0];
  switch (kind) {
    case OpKind::embedding:
      dims.emplace_back("column");
      return dims;
    case OpKind::matmul: {
      dims.resize(dims.size() - static_cast<size_t>(attributes.at("contract")));
      const size_t columns = output.size() - dims.size();
      for (size_t c = 0; c < columns; ++c) {
        dims.push_back(columns == 1 ? "column" : fmt::format("column({})", c));
      }
      return dims;
    }
    case OpKind::attention:
      return {"batch", "sequence", "head", "column"};
    case OpKind::cross_entropy:
      return {};
    case OpKind::route:
    case OpKind::gate:
      return {"batch", "sequence", "choice"};
    case OpKind::expert_counts:
      return {"batch", "expert"};
    case OpKind::dispatch:
    case OpKind::expert_matmul:
      return {"batch", "expert", "capacity", "column"};
    case OpKind::combine:
      return {"batch", "sequence", "column"};
    default:
      return dims;  // element by element
  }
}

Shape saved_shape(OpKind kind, std::span<const Shape> inputs) {
  const Shape& x = inputs[0];
  if (kind == OpKind::attention) {
    return {x[0], x[3], x[1]};  // batch, heads, sequence
  }
  return leading(x, x.size() - 1);
}

}  // namespace hidup
