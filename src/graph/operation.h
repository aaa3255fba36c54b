// What every kind of operation is: arity, attributes, shape rule, flops, bytes,
// and what its backward pass needs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace hidup {

struct OperationSpec {
  OpKind kind;
  std::string_view name;
  std::vector<std::string_view> inputs;   // their roles, for messages
  std::vector<bool> integer_inputs = {};  // i32 instead of f32; empty: none
  bool integer_output = false;            // and then without a gradient
  Attributes attributes;                  // with defaults
  // The backward pass reads the forward input i, or the forward output.
  std::vector<bool> backward_needs_input;
  bool backward_needs_output = false;
  // The forward pass may write its output over its last activation input.
  bool in_place = false;
  // f32 values per row of the output that the forward pass keeps for the backward
  // pass beside the output (mean and reciprocal deviation, log-sum-exp).
  std::vector<std::string_view> saved;
};

const OperationSpec& spec_of(OpKind kind);
std::span<const OperationSpec> all_operations();
// Null if no operation has that name.
const OperationSpec* find_operation(std::string_view name);

// The output's shape. Throws Error(usage) where the inputs do not fit.
Shape infer_shape(OpKind kind, std::span<const Shape> inputs, const Attributes& attributes);

// Names of the output's dimensions, from those of the inputs.
std::vector<std::string> infer_dims(OpKind kind, std::span<const std::vector<std::string>> inputs,
                                    const Shape& output, const Attributes& attributes);

// Shape of one saved tensor (spec.saved) of an operation with this output.
Shape saved_shape(OpKind kind, std::span<const Shape> inputs);

// The dimensions of a product's weight: those that are summed over, and the columns.
struct WeightShape {
  Shape summed, columns;
};
WeightShape weight_shape(const Shape& weight, const Attributes& attributes);

}  // namespace hidup
