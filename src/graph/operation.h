// Records of all kinds of operations: inputs, attributes, shape rule, flops.
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
  // `element` is the floating type of the operation's inputs.
  enum class Type { element, f32, i32 };
  std::string_view name;  // role of the input
  Type type = Type::element;
  bool parameter = false;  // a weight, which a batch split does not cut
  bool learned = true;     // Tensor::learned of a parameter
  int batch = -1;          // the batch dimension; -1: as in the first input
};

struct OperationSpec {
  OpKind kind;
  std::string_view name;
  std::vector<InputSpec> inputs;
  InputSpec::Type output = InputSpec::Type::element;  // i32: no gradient
  OpAttributes attributes;                            // the defaults
  // Returns the output's shape. Throws Error(usage) where the inputs do not fit.
  Shape (*shape)(std::span<const Shape> inputs, const OpAttributes& attributes);
  // Returns the names of the output's dimensions; null: those of the first input.
  DimNames (*dims)(const DimNames& first, const Shape& output,
                   const OpAttributes& attributes) = nullptr;
  // Returns the flops of the forward pass; a multiply-add counts as two.
  double (*flops)(std::span<const Shape> inputs, const Shape& output,
                  const OpAttributes& attributes);
  // True for products: the flops bound their time, and model_flops() counts them.
  bool product = false;
  // True for operations with few flops per number that they read or write. Where memory is short
  // they are recomputed (sharding/memory_choices.h).
  bool cheap = false;
  // f32 values that the forward pass saves for the backward pass beside the output (mean and
  // reciprocal deviation, log-sum-exp), and their shape: one per row of the first input by default.
  std::vector<std::string_view> saved;
  Shape (*saved_shape)(const Shape& first) = nullptr;

  // True for operations that take packed rows (Tensor::counts).
  bool takes_packed = false;

  // Outside training, the output is the first input.
  bool training_only = false;

  bool integer_output() const { return output == InputSpec::Type::i32; }
};

const OperationSpec& spec_of(OpKind kind);
// Returns true if gradients reach the operation's floating-point inputs: those of its output, or
// those of a router's own losses.
bool has_backward(const Op& op);
// Returns true for operations whose output is a routing.
bool is_route(const Op& op);
std::span<const OperationSpec> all_operations();
// Returns null if no operation has that name.
const OperationSpec* find_operation(std::string_view name);

// Returns the output's shape. Throws Error(usage) where inputs or attributes do not fit.
Shape infer_shape(OpKind kind, std::span<const Shape> inputs, const OpAttributes& attributes);

DimNames infer_dims(OpKind kind, const DimNames& first, const Shape& output,
                    const OpAttributes& attributes);

// Returns the shape of a saved tensor (spec.saved), given the shape of the first input.
Shape saved_shape(OpKind kind, const Shape& first);

}  // namespace hidup
