// The record of every kind of operation: inputs, attributes, shape rule, flops.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace hidup {

using DimNames = std::vector<std::string>;

struct InputSpec {
  // `element`: the floating type of the operation's inputs.
  enum class Type { element, f32, i32 };
  std::string_view name;  // its role
  Type type = Type::element;
  bool parameter = false;  // a weight, not cut with the batch
  int batch = -1;  // the dimension that the operation takes for the batch; -1: as the first input's
};

struct OperationSpec {
  OpKind kind;
  std::string_view name;
  std::vector<InputSpec> inputs;
  InputSpec::Type output = InputSpec::Type::element;  // i32: it has no gradient
  OpAttributes attributes;                            // with defaults
  // The output's shape. Throws Error(usage) where the inputs do not fit.
  Shape (*shape)(std::span<const Shape> inputs, const OpAttributes& attributes);
  // Names of the output's dimensions; null: those of the first input.
  DimNames (*dims)(const DimNames& first, const Shape& output,
                   const OpAttributes& attributes) = nullptr;
  // Of the forward pass, a multiply-add as two.
  double (*flops)(std::span<const Shape> inputs, const Shape& output,
                  const OpAttributes& attributes);
  // A product: the flops bound its time, and model_flops() counts it.
  bool product = false;
  // A few flops per number that it reads or writes: rather computed again than kept where memory is
  // short (sharding/memory_choices.h).
  bool cheap = false;
  // f32 values that the forward pass keeps for the backward pass beside the output, and their shape
  // (mean and reciprocal deviation, log-sum-exp): one per row of the first input unless it says
  // otherwise.
  std::vector<std::string_view> saved;
  Shape (*saved_shape)(const Shape& first) = nullptr;

  // Outside training the output is the first input.
  bool training_only = false;

  bool integer_output() const { return output == InputSpec::Type::i32; }
};

const OperationSpec& spec_of(OpKind kind);
// Whether gradients reach the operation's floating-point inputs through it: those of its output, or
// those of a router's own losses.
bool has_backward(const Op& op);
std::span<const OperationSpec> all_operations();
// Null if no operation has that name.
const OperationSpec* find_operation(std::string_view name);

// The output's shape. Throws Error(usage) where inputs or attributes do not fit.
Shape infer_shape(OpKind kind, std::span<const Shape> inputs, const OpAttributes& attributes);

DimNames infer_dims(OpKind kind, const DimNames& first, const Shape& output,
                    const OpAttributes& attributes);

// Shape of one saved tensor (spec.saved) of an operation whose first input has this shape.
Shape saved_shape(OpKind kind, const Shape& first);

}  // namespace hidup
