#include "program/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/check.h"
#include "graph/operation.h"
#include "program/work.h"

namespace hidup {
namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, const Strategy& strategy, const LoweringOptions& options)
      : graph_(graph), strategy_(strategy), options_(options) {
    program_.name = graph.name();
    program_.mesh = strategy.mesh;
    value_of_.assign(graph.tensors().size(), -1);
    gradient_.assign(graph.tensors().size(), -1);
    consumers_.assign(graph.tensors().size(), 0);
    saved_.resize(graph.ops().size());
  }

  Program run() {
    count_consumers();
    add_inputs_and_parameters();
    for (OpId op = 0; op < op_count(); ++op) {
      forward(op);
    }
    add_gradients();
    for (OpId op = op_count() - 1; op >= 0; --op) {
      backward(op);
      close_bucket(options_.bucket_bytes);
    }
    close_bucket(0);
    update();
    insert_waits(program_);
    estimate_work(program_);
    return std::move(program_);
  }

 private:
  using Operands = std::vector<ValueId>;

  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  OpId op_count() const { return static_cast<OpId>(graph_.ops().size()); }

  void count_consumers() {
    for (const Op& op : graph_.ops()) {
      for (const TensorId input : op.inputs) {
        ++consumers_[index(input)];
      }
    }
  }

  Tensor::Role role(TensorId id) const { return graph_.tensor(id).role; }

  ValueId add_value(Value value) {
    program_.values.push_back(std::move(value));
    return static_cast<ValueId>(program_.values.size()) - 1;
  }

  Instruction& emit(Opcode opcode, const std::string& name, Operands inputs, Operands outputs) {
    Instruction instruction{
        .opcode = opcode,
        .name = name,
        .stream = collective_of(opcode).empty() ? StreamKind::compute : StreamKind::comm,
        .phase = phase_,
        .microbatch = microbatch_,
        .inputs = std::move(inputs),
        .outputs = std::move(outputs)};
    program_.instructions.push_back(std::move(instruction));
    return program_.instructions.back();
  }

  void add_inputs_and_parameters() {
    std::map<TensorId, const ParameterStrategy*> stored;
    for (const ParameterStrategy& parameter : strategy_.parameters) {
      stored[parameter.tensor] = &parameter;
    }
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
      const Tensor& tensor = graph_.tensor(id);
      Value value{.name = tensor.name,
                  .dtype = tensor.dtype,
                  .shape = tensor.shape,
                  .init = tensor.init,
                  .decay = tensor.decay};
      if (tensor.role == Tensor::Role::parameter) {
        value.role = Value::Role::parameter;
        value.layout = stored.at(id)->storage;
        value_of_[index(id)] = add_value(value);
        value.role = Value::Role::optimizer_state;
        value.layout = stored.at(id)->optimizer_state;
        for (const char* moment : {"m", "v"}) {
          value.name = fmt::format("{}.{}", tensor.name, moment);
          moments_[id].push_back(add_value(value));
        }
      }
    }
  }

  // The value that holds an operand as the rule wants it.
  ValueId operand(OpId op, size_t input) {
    const TensorId id = graph_.op(op).inputs[input];
    const Layout wanted = input_layout(strategy_.ops[index(op)], input);
    ValueId& value = value_of_[index(id)];
    if (value < 0) {  // an input of the step: every rank gets just its part
      const Tensor& tensor = graph_.tensor(id);
      value = add_value({.name = tensor.name,
                         .role = Value::Role::input,
                         .dtype = tensor.dtype,
                         .shape = tensor.shape,
                         .layout = wanted});
      (tensor.name == "tokens" ? program_.tokens : program_.targets) = value;
    }
    check(program_.value(value).layout == wanted, "{} is {}, but {} needs {}",
          graph_.tensor(id).name, to_string(program_.value(value).layout), graph_.op_name(op),
          to_string(wanted));
    return value;
  }

  // Whether the operation may write over its last activation input: nobody else
  // reads that tensor, in the forward pass or in the backward pass.
  bool overwrites(OpId op, size_t input) const {
    const Op& self = graph_.op(op);
    const Tensor& tensor = graph_.tensor(self.inputs[input]);
    return spec_of(self.kind).in_place && tensor.role == Tensor::Role::activation &&
           consumers_[index(self.inputs[input])] == 1 &&
           !spec_of(self.kind).backward_needs_input[input] &&
           !spec_of(graph_.op(tensor.producer).kind).backward_needs_output;
  }

  void forward(OpId id) {
    const Op& op = graph_.op(id);
    const OperationSpec& spec = spec_of(op.kind);
    const std::string& name = graph_.op_name(id);
    phase_ = Phase::forward;
    microbatch_ = 0;

    Operands inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      inputs.push_back(operand(id, i));
    }
    const Layout layout = output_layout(strategy_.ops[index(id)]);
    const size_t last = op.kind == OpKind::add ? 1 : 0;  // the last activation input
    ValueId output = -1;
    if (overwrites(id, last)) {
      output = inputs[last];
      check(program_.value(output).layout == layout, "{} changes its layout in place", name);
    } else {
      output = add_value({.name = name, .shape = graph_.tensor(op.output).shape, .layout = layout});
    }
    value_of_[index(op.output)] = output;
    Operands outputs = {output};
    for (const std::string_view saved : spec.saved) {
      outputs.push_back(add_value({.name = fmt::format("{}.{}", name, saved),
                                   .shape = saved_shape(op.kind, shapes_of(op)),
                                   .layout = activation_layout(inputs[0])}));
    }
    saved_[index(id)] = {outputs.begin() + 1, outputs.end()};

    Instruction& instruction = emit(forward_opcode(op.kind), name, inputs, outputs);
    instruction.attributes = op.attributes;
    if (op.kind == OpKind::dropout) {
      instruction.purpose = dropout_purpose(id);
    }
    if (op.kind == OpKind::cross_entropy) {
      program_.loss = output;
      program_.values[index(output)].role = Value::Role::result;
      instruction.attributes["scale"] = loss_scale(op);
      reduce_loss(output);
    }
  }

  // Saved tensors follow their operation's input; all rules so far cut dimension 0.
  Layout activation_layout(ValueId input) const { return program_.value(input).layout; }

  std::vector<Shape> shapes_of(const Op& op) const {
    std::vector<Shape> shapes;
    for (const TensorId input : op.inputs) {
      shapes.push_back(graph_.tensor(input).shape);
    }
    return shapes;
  }

  // The loss is the mean over all targets of the step, on all ranks.
  double loss_scale(const Op& op) const {
    return 1.0 / static_cast<double>(elements(graph_.tensor(op.inputs[1]).shape));
  }

  // For the log only: the backward pass does not need the sum.
  void reduce_loss(ValueId loss) {
    if (ranks_of(program_.mesh) > 1) {
      emit(Opcode::all_reduce, "loss.all_reduce", {loss}, {loss});
    }
  }

  static Opcode forward_opcode(OpKind kind) {
    switch (kind) {
      case OpKind::embedding:
        return Opcode::embedding;
      case OpKind::positions:
        return Opcode::positions;
      case OpKind::matmul:
        return Opcode::matmul;
      case OpKind::bias:
        return Opcode::bias;
      case OpKind::relu:
        return Opcode::relu;
      case OpKind::dropout:
        return Opcode::dropout;
      case OpKind::add:
        return Opcode::add;
      case OpKind::layer_norm:
        return Opcode::layer_norm;
      case OpKind::attention:
        return Opcode::attention;
      case OpKind::cross_entropy:
        return Opcode::cross_entropy;
    }
    fail(ExitCode::internal, "an operation of unknown kind");
  }

  // Gradients of parameters, in the order in which the backward pass completes them
  // (at the parameter's first use), so that a bucket is one piece of memory.
  void add_gradients() {
    std::vector<OpId> first_use(graph_.tensors().size(), op_count());
    for (OpId op = op_count() - 1; op >= 0; --op) {
      for (const TensorId input : graph_.op(op).inputs) {
        first_use[index(input)] = op;
      }
    }
    for (OpId op = op_count() - 1; op >= 0; --op) {
      for (size_t i = 0; i < graph_.op(op).inputs.size(); ++i) {
        const TensorId id = graph_.op(op).inputs[i];
        if (role(id) == Tensor::Role::parameter && first_use[index(id)] == op) {
          gradients_[id] = {
              .value = add_value({.name = fmt::format("{}.gradient", graph_.tensor(id).name),
                                  .role = Value::Role::gradient,
                                  .shape = graph_.tensor(id).shape,
                                  .layout = gradient_layout(strategy_.ops[index(op)], i)}),
              .completed_by = op};
        }
      }
    }
  }

  // The gradient of the operation's output; each contribution has been added by now.
  ValueId take_gradient(OpId op) {
    return std::exchange(gradient_[index(graph_.op(op).output)], -1);
  }

  // Whether no tensor whose gradient is still to be used shares this value.
  bool unshared(ValueId value) const { return std::ranges::count(gradient_, value) == 0; }

  std::string gradient_name(OpId op, size_t input) const {
    return fmt::format("{}.gradient", graph_.tensor(graph_.op(op).inputs[input]).name);
  }
  // Names the mask's random numbers; the same in both passes.
  std::string dropout_purpose(OpId op) const {
    return fmt::format("dropout/{}", graph_.op_name(op));
  }

  ValueId activation_gradient(OpId op, size_t input) {
    return add_value({.name = gradient_name(op, input),
                      .shape = graph_.tensor(graph_.op(op).inputs[input]).shape,
                      .layout = gradient_layout(strategy_.ops[index(op)], input)});
  }

  // Adds a finished contribution to the gradient of an activation.
  void contribute(OpId op, size_t input, ValueId value) {
    const TensorId id = graph_.op(op).inputs[input];
    if (role(id) != Tensor::Role::activation) {
      return;
    }
    ValueId& sum = gradient_[index(id)];
    if (sum < 0) {
      sum = value;
      return;
    }
    // Out of place where another tensor's gradient still is this very value.
    const ValueId old = std::exchange(sum, -1);
    const ValueId result = unshared(value) ? value
                           : unshared(old) ? old
                                           : activation_gradient(op, input);
    emit(Opcode::add, gradient_name(op, input) + ".add", {old, value}, {result});
    sum = result;
  }

  // Where this operation leaves its contribution to a parameter's gradient: adds it
  // to an earlier one, or writes the first.
  struct Contribution {
    ValueId gradient;
    bool accumulate;
  };
  Contribution parameter_gradient(OpId op, size_t input) {
    const TensorId id = graph_.op(op).inputs[input];
    Gradient& gradient = gradients_.at(id);
    if (gradient.completed_by == op) {
      bucket_.push_back(id);
    }
    return {gradient.value, std::exchange(gradient.written, true)};
  }

  void emit_parameter_gradient(OpId op, size_t input, Opcode opcode, Operands inputs) {
    const auto [gradient, accumulate] = parameter_gradient(op, input);
    Instruction& instruction =
        emit(opcode, gradient_name(op, input), std::move(inputs), {gradient});
    instruction.accumulate = accumulate;
    instruction.attributes = graph_.op(op).attributes;
  }

  void backward(OpId id) {
    const Op& op = graph_.op(id);
    phase_ = Phase::backward;
    const ValueId dy = take_gradient(id);
    check(dy >= 0 || op.kind == OpKind::cross_entropy, "{} has no use", graph_.op_name(id));
    switch (op.kind) {
      case OpKind::embedding:
        emit_parameter_gradient(id, 1, Opcode::embedding_backward, {value(op.inputs[0]), dy});
        break;
      case OpKind::positions:
        contribute(id, 0, dy);
        break;
      case OpKind::matmul:
        emit_parameter_gradient(id, 1, Opcode::matmul_backward_weight, {value(op.inputs[0]), dy});
        matmul_input_gradient(id, dy);
        break;
      case OpKind::bias:
        emit_parameter_gradient(id, 1, Opcode::bias_backward, {dy});
        contribute(id, 0, dy);
        break;
      case OpKind::relu:
        elementwise_gradient(id, Opcode::relu_backward, {value(op.output), dy}, dy);
        break;
      case OpKind::dropout:
        elementwise_gradient(id, Opcode::dropout, {dy}, dy);
        break;
      case OpKind::add:
        contribute(id, 0, dy);
        contribute(id, 1, dy);
        break;
      case OpKind::layer_norm:
        layer_norm_gradient(id, dy);
        break;
      case OpKind::attention:
        attention_gradient(id, dy);
        break;
      case OpKind::cross_entropy:
        cross_entropy_gradient(id);
        break;
    }
  }

  ValueId value(TensorId id) const { return value_of_[index(id)]; }

  void matmul_input_gradient(OpId id, ValueId dy) {
    const Op& op = graph_.op(id);
    if (role(op.inputs[0]) != Tensor::Role::activation) {
      return;
    }
    // The product can be added to what is there already, unless that is shared.
    ValueId& sum = gradient_[index(op.inputs[0])];
    const ValueId old = std::exchange(sum, -1);
    const bool accumulate = old >= 0 && unshared(old);
    const ValueId dx = accumulate ? old : activation_gradient(id, 0);
    Instruction& instruction =
        emit(Opcode::matmul_backward_input, gradient_name(id, 0), {dy, value(op.inputs[1])}, {dx});
    instruction.accumulate = accumulate;
    instruction.attributes = op.attributes;
    sum = accumulate ? -1 : old;
    contribute(id, 0, dx);
  }

  // dx = f(dy) element by element: over dy itself where nobody else needs it.
  void elementwise_gradient(OpId id, Opcode opcode, Operands inputs, ValueId dy) {
    const ValueId dx = unshared(dy) ? dy : activation_gradient(id, 0);
    Instruction& instruction = emit(opcode, gradient_name(id, 0), std::move(inputs), {dx});
    instruction.attributes = graph_.op(id).attributes;
    if (opcode == Opcode::dropout) {
      instruction.purpose = dropout_purpose(id);
    }
    contribute(id, 0, dx);
  }

  void layer_norm_gradient(OpId id, ValueId dy) {
    const Op& op = graph_.op(id);
    const ValueId dx = activation_gradient(id, 0);
    const auto [dweight, accumulate] = parameter_gradient(id, 1);
    const auto [dbias, accumulate_bias] = parameter_gradient(id, 2);
    check(accumulate == accumulate_bias, "{} shares only one of its parameters",
          graph_.op_name(id));
    const Operands& saved = saved_[index(id)];
    Instruction& instruction = emit(
        Opcode::layer_norm_backward, gradient_name(id, 0),
        {value(op.inputs[0]), value(op.inputs[1]), saved[0], saved[1], dy}, {dx, dweight, dbias});
    instruction.accumulate = accumulate;
    contribute(id, 0, dx);
  }

  void attention_gradient(OpId id, ValueId dy) {
    const Op& op = graph_.op(id);
    const ValueId dqkv = activation_gradient(id, 0);
    emit(Opcode::attention_backward, gradient_name(id, 0),
         {value(op.inputs[0]), value(op.output), saved_[index(id)][0], dy}, {dqkv})
        .attributes = op.attributes;
    contribute(id, 0, dqkv);
  }

  void cross_entropy_gradient(OpId id) {
    const Op& op = graph_.op(id);
    const ValueId logits = value(op.inputs[0]);
    // At the logits' last use, their gradient takes their place.
    const ValueId dlogits =
        consumers_[index(op.inputs[0])] == 1 ? logits : activation_gradient(id, 0);
    emit(Opcode::cross_entropy_backward, gradient_name(id, 0),
         {logits, value(op.inputs[1]), saved_[index(id)][0]}, {dlogits})
        .attributes["scale"] = loss_scale(op);
    contribute(id, 0, dlogits);
  }

  // Sends the gradients that are complete, once they are `least` bytes or more.
  void close_bucket(int64_t least) {
    Operands values;
    int64_t bytes = 0;
    for (const TensorId parameter : bucket_) {
      values.push_back(gradients_.at(parameter).value);
      bytes += elements(graph_.tensor(parameter).shape) * size_of(DType::f32);
    }
    if (bucket_.empty() || bytes < least) {
      return;
    }
    if (ranks_of(program_.mesh) > 1) {
      microbatch_ = -1;
      emit(Opcode::all_reduce, fmt::format("gradients.{}.all_reduce", buckets_.size()), values,
           values);
      microbatch_ = 0;
    }
    buckets_.push_back(std::exchange(bucket_, {}));
  }

  void update() {
    phase_ = Phase::update;
    microbatch_ = -1;
    Operands all;
    for (const std::vector<TensorId>& bucket : buckets_) {
      for (const TensorId parameter : bucket) {
        all.push_back(gradients_.at(parameter).value);
      }
    }
    const ValueId squared = add_scalar("gradient_norm.squared", Value::Role::activation);
    program_.gradient_norm = add_scalar("gradient_norm", Value::Role::result);
    const ValueId scale = add_scalar("gradient_scale", Value::Role::activation);
    emit(Opcode::squared_norm, "gradient_norm.squared", all, {squared});
    emit(Opcode::clip_scale, "gradient_norm", {squared}, {program_.gradient_norm, scale})
        .attributes["max_norm"] = options_.clip_norm;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      Operands inputs;
      Operands outputs;
      for (const TensorId parameter : buckets_[b]) {
        const Operands& moments = moments_.at(parameter);
        inputs.insert(inputs.end(),
                      {value(parameter), gradients_.at(parameter).value, moments[0], moments[1]});
        outputs.insert(outputs.end(), {value(parameter), moments[0], moments[1]});
      }
      inputs.push_back(scale);
      emit(Opcode::adam, fmt::format("parameters.{}.update", b), inputs, outputs).attributes =
          options_.optimizer;
    }
  }

  ValueId add_scalar(const std::string& name, Value::Role role) {
    const Layout replicated(program_.mesh.size(), Placement::replicate());
    return add_value({.name = name, .role = role, .shape = {}, .layout = replicated});
  }

  struct Gradient {
    ValueId value = -1;
    OpId completed_by = -1;  // the last operation of the backward pass that adds to it
    bool written = false;
  };

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

}  // namespace

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options) {
  return Lowering(graph, strategy, options).run();
}

}  // namespace hidup
