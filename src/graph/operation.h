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

// Floating-point operations of the forward pass, a multiply-add as two. Works on
// global shapes and on a rank's part alike.
double forward_flops(OpKind kind, std::span<const Shape> inputs, const Shape& output,
                     const Attributes& attributes);

// Bytes the forward pass must at least move: inputs and output once.
double forward_bytes(std::span<const Shape> inputs, const Shape& output);

// Extents of matmul: rows x contracted x columns, of an x[.., k] times a weight[k, ..] with
// `contract` dimensions in k; `transposed`: times a weight[.., k].
struct MatmulExtents {
  int64_t m = 1, k = 1, n = 1;
};
MatmulExtents matmul_extents(const Shape& x, const Shape& w, const Attributes& attributes);

}  // namespace hidup
