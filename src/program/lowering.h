// How lower() works inside; for the sources of this folder only.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/lower.h"

namespace hidup {

// Writes the instruction list from front to back: forward (forward.cpp), backward
// (backward.cpp), buckets and update (update.cpp).
class Lowering {
 public:
  Lowering(const Graph& graph, const Strategy& strategy, const LoweringOptions& options);
  Program run();

 private:
  using Operands = std::vector<ValueId>;

  // A parameter's gradient.
  struct Gradient {
    ValueId value = -1;
    OpId completed_by = -1;  // the last operation of the backward pass that adds to it
    bool written = false;
  };
  // Where an operation leaves its contribution to a parameter's gradient: it adds to
  // an earlier one, or writes the first.
  struct Contribution {
    ValueId gradient;
    bool accumulate;
  };

  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  OpId op_count() const { return static_cast<OpId>(graph_.ops().size()); }
  Tensor::Role role(TensorId id) const { return graph_.tensor(id).role; }
  ValueId value(TensorId id) const { return value_of_[index(id)]; }
  bool one_rank() const { return ranks_of(program_.mesh) == 1; }

  ValueId add_value(Value value);
  Instruction& emit(Opcode opcode, const std::string& name, Operands inputs, Operands outputs);
  // Names the mask's random numbers; the same in both passes.
  std::string dropout_purpose(OpId op) const { return "dropout/" + graph_.op_name(op); }
  // The loss is the mean over all targets of the step, on all ranks.
  double loss_scale(const Op& op) const;

  void count_consumers();
  void add_parameters();
  // The value that holds an operand as the rule wants it.
  ValueId operand(OpId op, size_t input);
  // Whether the operation may write over that input: it is an activation that nobody
  // else reads, in the forward pass or in the backward pass.
  bool overwrites(OpId op, size_t input) const;
  ValueId add_output(OpId id, const Operands& inputs);
  void forward(OpId id);
  std::vector<Shape> shapes_of(const Op& op) const;
  // For the log only: the backward pass does not need the sum.
  void reduce_loss(ValueId loss);

  // Gradients of parameters, in the order in which the backward pass completes them
  // (at the parameter's first use), so that a bucket is one piece of memory.
  void add_gradients();
  std::string gradient_name(OpId op, size_t input) const;
  ValueId activation_gradient(OpId op, size_t input);
  // The gradient of the operation's output; each contribution has been added by now.
  ValueId take_gradient(OpId op);
  // Whether no tensor whose gradient is still to be used shares this value.
  bool unshared(ValueId value) const;
  // Adds a finished contribution to the gradient of an activation.
  void contribute(OpId op, size_t input, ValueId value);
  Contribution parameter_gradient(OpId op, size_t input);
  void emit_parameter_gradient(OpId op, size_t input, Opcode opcode, Operands inputs);
  void backward(OpId id);
  void matmul_input_gradient(OpId id, ValueId dy);
  // dx = f(dy) element by element: over dy itself where nobody else needs it.
  void elementwise_gradient(OpId id, Opcode opcode, Operands inputs, ValueId dy);
  void layer_norm_gradient(OpId id, ValueId dy);
  void attention_gradient(OpId id, ValueId dy);
  void cross_entropy_gradient(OpId id);

  // Sends the gradients that are complete, once they are `least` bytes or more.
  void close_bucket(int64_t least);
  ValueId add_scalar(const std::string& name, Value::Role role);
  void update();

  const Graph& graph_;
  const Strategy& strategy_;
  const LoweringOptions& options_;
  Program program_;
  std::vector<ValueId> value_of_;           // per tensor: its forward value
  std::vector<ValueId> gradient_;           // per activation: the sum of contributions so far
  std::vector<int> consumers_;              // per tensor
  std::vector<Operands> saved_;             // per operation: kept for its backward pass
  std::map<TensorId, Operands> moments_;    // per parameter: m and v
  std::map<TensorId, Gradient> gradients_;  // per parameter
  std::vector<TensorId> bucket_;            // parameters with complete gradients, not yet sent
  std::vector<std::vector<TensorId>> buckets_;
  Phase phase_ = Phase::forward;
  int microbatch_ = 0;
};

}  // namespace hidup
