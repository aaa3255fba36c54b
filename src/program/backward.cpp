#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/deadline.h"
#include "graph/operation.h"
#include "program/lowering.h"
#include "program/recompute.h"

namespace hidup {
namespace {

// Names a backward instruction: "head, weight gradient", or "norm1, gradients" for several.
std::string backward_name(const Graph& graph, OpId id, const BackwardStep& step) {
  const std::string& operation = graph.op_name(id);
  if (step.gradients_of.size() > 1) {
    return operation + ", gradients";
  }
  const std::string_view input = spec_of(graph.op(id).kind).inputs[step.gradients_of[0]].name;
  return fmt::format("{}, {} gradient", operation, input == "x" ? "input" : input);
}

// Writes the steps in the operations' records (OpcodeSpec::backward), last operation first.
class BackwardPass {
 public:
  BackwardPass(const LoweringInput& input, bool splits, const ForwardState& forward,
               Recomputation& recomputation, ParameterGradients& gradients, BackwardState& state,
               ProgramBuilder& builder)
      : input_(input),
        graph_(input.graph),
        splits_(splits),
        forward_(forward),
        recomputation_(recomputation),
        gradients_(gradients),
        state_(state),
        holders_(state.holders),
        builder_(builder) {}

  void run(const TaskLists& lists) {
    const int count = input_.strategy.microbatches;
    const int first = lists.task.microbatch * count;
    const std::vector<OpId>& forward = input_.ops_of(lists.task.chunk);
    const std::vector<OpId> ops(forward.rbegin(), forward.rend());
    if (recomputation_.is_needed() && !recomputation_.is_planned()) {
      for (const OpId op : ops) {
        recomputation_.plan(op, read_by(op, first));
      }
    }
    for (int i = 0; i < count; ++i) {
      BackwardState::Microbatch& microbatch = state_.microbatches[first + i];
      sums_ = &microbatch.sums;
      sums_->resize(graph_.tensors().size());
      weights_ = &microbatch.weights[lists.task.chunk];
      const Scope scope{
          .phase = Phase::backward, .list = lists.first_list + i, .microbatch = first + i};
      if (lists.task.pass == pipeline::Pass::weights) {
        write_weights(scope, ops);
      } else {
        write_chunk(scope, ops);
      }
    }
  }

 private:
  void write_chunk(Scope scope, const std::vector<OpId>& ops) {
    int64_t unsent = 0;
    for (const OpId op : ops) {
      TimeLimit::check();
      scope.op = op;
      operation(scope);
      if (!splits_) {
        gradients_.add_pass(scope);
      }
      // A bucket ends the stage, so it need not wait for the whole pass of other microbatches.
      unsent += gradients_.bytes_to_send(op);
      if (unsent >= input_.options.bucket_bytes) {
        builder_.cut(scope);
        unsent = 0;
      }
    }
  }

  // Writes the steps that the backward task left, which are in the order of the operations.
  void write_weights(Scope scope, const std::vector<OpId>& ops) {
    const std::vector<WeightsStep> steps = std::exchange(*weights_, {});
    auto next = steps.begin();
    for (const OpId op : ops) {
      scope.op = op;
      for (; next != steps.end() && next->op == op; ++next) {
        --holders_[next->output_gradient];
        instruction(scope, *next->step, next->output_gradient);
      }
      gradients_.add_pass(scope);
    }
  }

  // Returns true where the step makes only gradients of parameters, and a weights task follows.
  bool is_left_for_weights(const BackwardStep& step, const Op& op) const {
    return splits_ && std::ranges::all_of(step.gradients_of, [&](size_t i) {
             return input_.is_parameter(op.inputs[i]);
           });
  }

  TensorId input_tensor(const Scope& scope) const {
    return graph_.op(scope.op).inputs[static_cast<size_t>(scope.input)];
  }
  Layout layout_of_gradient(const Scope& scope) const {
    return gradient_layout(input_.rules(scope.op), static_cast<size_t>(scope.input));
  }
  std::string gradient_name(TensorId id) const { return gradients_.name(id); }
  std::vector<GradientSum>& sums(TensorId id) { return (*sums_)[static_cast<size_t>(id)]; }

  void operation(const Scope& scope) {
    const Op& op = graph_.op(scope.op);
    const std::vector<BackwardStep>& steps = forward_of(op.kind).backward;
    if (!has_backward(op)) {
      return;
    }
    ValueId dy = output_gradient(scope);
    check(dy >= 0 || op.output == graph_.loss() || is_route(op), "{} has no use",
          graph_.op_name(scope.op));
    if (recomputation_.is_needed()) {
      recomputation_.need(scope, read_by(scope.op, scope.microbatch), dy);
    }
    if (op.kind == OpKind::wide_matmul) {  // the backward pass multiplies in the inputs' type
      dy = builder_.convert(scope, dy, graph_.tensor(op.inputs[0]).dtype, gradient_name(op.output));
    }
    for (const BackwardStep& step : steps) {
      if (step.opcode && is_needed(step, graph_, op)) {
        if (is_left_for_weights(step, op)) {
          ++holders_[dy];
          weights_->push_back({scope.op, &step, dy});
        } else {
          instruction(scope, step, dy);
        }
      } else if (!step.opcode) {
        contribute(scope.for_input(step.gradients_of[0]), dy);
      }
    }
  }

  // Returns the complete gradient of the operation's output, in the layout of its rule; -1: none.
  ValueId output_gradient(const Scope& scope) {
    const TensorId id = graph_.op(scope.op).output;
    const Layout wanted = gradient_of(output_layout(input_.rules(scope.op)));
    const std::vector<GradientSum> found = std::exchange(sums(id), {});
    for (const GradientSum& sum : found) {
      --holders_[sum.value];
    }
    ValueId total = -1;
    for (const GradientSum& sum : found) {
      const ValueId part =
          builder_.reshard(scope, sum.value, wanted, gradient_name(id), unshared(sum.value));
      total = total < 0 ? part : add(scope, total, part, gradient_name(id));
    }
    return total;
  }

  // Returns true where no pending gradient of another tensor shares this value.
  bool unshared(ValueId value) const {
    const auto found = holders_.find(value);
    return found == holders_.end() || found->second == 0;
  }

  // Adds in place, or to a new value where another tensor's gradient shares both summands.
  ValueId add(const Scope& scope, ValueId a, ValueId b, const std::string& name) {
    ValueId result = unshared(b) ? b : a;
    if (!unshared(result)) {
      Value value = builder_.value(b);
      value.name = name;
      result = builder_.add(std::move(value));
    }
    builder_.emit(scope, Opcode::add, name + ".add", {a, b}, {result});
    return result;
  }

  const ForwardValues& forward(int microbatch) const { return forward_.values.at(microbatch); }

  // Returns the forward pass's value of the operand.
  ValueId forward_value(const Scope& scope, const BackwardOperand& operand) const {
    using From = BackwardOperand::From;
    const ForwardValues& values = forward(scope.microbatch);
    const auto op = static_cast<size_t>(scope.op);
    const auto output = static_cast<size_t>(graph_.op(scope.op).output);
    return operand.from == From::input   ? values.operands[op][operand.index]
           : operand.from == From::saved ? values.saved[op][operand.index]
                                         : values.copies[output][0];
  }

  // Returns the forward values that the operation's backward pass reads, then those for the
  // backward pass of a GELU before it, because fuse_backward() fuses the two.
  ValueIds read_by(OpId id, int microbatch) const {
    const Op& op = graph_.op(id);
    ValueIds values;
    if (!has_backward(op)) {
      return values;
    }
    const Scope scope{.microbatch = microbatch, .op = id};
    for (const BackwardStep& step : forward_of(op.kind).backward) {
      for (const BackwardOperand& operand : step.operands) {
        if (is_needed(step, graph_, op) && operand.from != BackwardOperand::From::output_gradient) {
          values.push_back(forward_value(scope, operand));
        }
      }
    }
    for (const TensorId input : op.inputs) {
      const OpId producer = graph_.tensor(input).producer;
      if (producer >= 0 && graph_.op(producer).kind == OpKind::gelu) {
        const ValueIds more = read_by(producer, microbatch);
        values.insert(values.end(), more.begin(), more.end());
      }
    }
    return values;
  }

  // Gathers the factors of a gradient that every rank computes whole.
  ValueIds operands(const Scope& scope, const BackwardStep& step, ValueId dy) {
    ValueIds values;
    for (const BackwardOperand& operand : step.operands) {
      const ValueId value = operand.from == BackwardOperand::From::output_gradient
                                ? dy
                                : recomputation_.now(forward_value(scope, operand));
      const Layout wanted =
          factor_layout(input_.rules(scope.op), step.gradients_of[0], builder_.value(value).layout);
      values.push_back(builder_.reshard(scope.for_input(step.gradients_of[0]), value, wanted,
                                        builder_.value(value).name + ".factor", false));
    }
    if (is_route(graph_.op(scope.op))) {  // its losses also read the sums
      values.push_back(forward(scope.microbatch).saved[static_cast<size_t>(scope.op)][0]);
    }
    return values;
  }

  // The place of a gradient that an instruction writes: the parameter's sum, an activation's sum
  // that it adds to, an overwritten operand, or a new value that contribute() adds later.
  struct Written {
    ValueId value;
    bool accumulate = false;
    bool contributed = false;
  };

  void instruction(const Scope& scope, const BackwardStep& step, ValueId dy) {
    const Op& op = graph_.op(scope.op);
    const OpcodeSpec& spec = spec_of(*step.opcode);
    const ValueIds inputs = operands(scope, step, dy);
    std::vector<Written> written;
    ValueIds outputs;
    bool accumulate = false;
    for (size_t k = 0; k < step.gradients_of.size(); ++k) {
      const Scope of_input = scope.for_input(step.gradients_of[k]);
      written.push_back(place(of_input, step, spec.signature.outputs.list()[k], inputs));
      outputs.push_back(written.back().value);
      accumulate |= written.back().accumulate;
    }
    const Scope first = scope.for_input(step.gradients_of[0]);
    Instruction& emitted =
        builder_.emit(first, *step.opcode, backward_name(graph_, scope.op, step), inputs, outputs);
    emitted.accumulate = accumulate;
    emitted.attributes = attributes_of(*step.opcode, op);
    if (spec.random) {
      emitted.purpose = input_.random_purpose(scope.op);
    }
    if (std::holds_alternative<LossAttributes>(emitted.attributes)) {
      emitted.attributes = input_.loss_attributes(op);
    } else if (std::holds_alternative<RouterLossAttributes>(emitted.attributes)) {
      emitted.attributes = input_.router_loss_attributes(op);
    }
    for (size_t k = 0; k < written.size(); ++k) {
      if (!written[k].contributed) {
        contribute(scope.for_input(step.gradients_of[k]), written[k].value);
      }
    }
  }

  Written place(const Scope& scope, const BackwardStep& step, const Operand& output,
                const ValueIds& inputs) {
    const TensorId id = input_tensor(scope);
    const bool f32 = output.type == 'f';
    // An instruction adds to all its sums or to none, so to several only if no other operation uses
    // them.
    const bool alone = std::ranges::all_of(step.gradients_of, [&](size_t i) {
      const TensorId other = graph_.op(scope.op).inputs[i];
      return step.gradients_of.size() == 1 || !input_.is_parameter(other) ||
             input_.consumers_of(other) == 1;
    });
    const bool fits = f32 || graph_.tensor(id).dtype == DType::f32;
    if (input_.is_parameter(id) && alone && fits &&
        (output.sum || !gradients_.has_summand(scope.op, step_input(scope)))) {
      const auto [value, accumulate] = gradients_.target(scope.op, step_input(scope));
      return {value, accumulate, true};
    }
    if (const ValueId over = overwritten(scope, step, output, inputs); over >= 0) {
      return {over};
    }
    const auto sum = std::ranges::find(sums(id), layout_of_gradient(scope), &GradientSum::layout);
    const bool can_add = output.sum && !f32 && sum != sums(id).end() &&
                         holders_.at(sum->value) == 1 &&
                         std::ranges::find(inputs, sum->value) == inputs.end();
    if (can_add) {
      return {sum->value, true, true};
    }
    Value value =
        input_.value_of(id, gradient_name(id), layout_of_gradient(scope), scope.microbatch);
    value.dtype = f32 ? DType::f32 : value.dtype;
    return {builder_.add(std::move(value), graph_.tensor(id), scope.microbatch)};
  }

  static size_t step_input(const Scope& scope) { return static_cast<size_t>(scope.input); }

  // Returns the operand that the output may overwrite, at the operand's last use; -1: none.
  ValueId overwritten(const Scope& scope, const BackwardStep& step, const Operand& output,
                      const ValueIds& inputs) const {
    using From = BackwardOperand::From;
    if (output.over.empty()) {
      return -1;
    }
    const OperandList& taken = spec_of(*step.opcode).signature.inputs;
    const auto at = static_cast<size_t>(taken.find(output.over[0]));
    if (builder_.value(inputs[at]).layout != layout_of_gradient(scope)) {
      return -1;
    }
    if (step.operands[at].from == From::output_gradient) {
      return unshared(inputs[at]) ? inputs[at] : -1;
    }
    const TensorId id = graph_.op(scope.op).inputs[step.operands[at].index];
    const bool last = input_.role(id) == Tensor::Role::activation && input_.consumers_of(id) == 1 &&
                      !input_.needed_by_producer(id);
    return last ? inputs[at] : -1;
  }

  // Adds a finished contribution to the gradient of the input.
  void contribute(const Scope& scope, ValueId value) {
    const TensorId id = input_tensor(scope);
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.role == Tensor::Role::input || !is_floating(tensor.dtype)) {
      return;
    }
    const std::string name = gradient_name(id);
    if (input_.is_parameter(id)) {
      contribute_to_parameter(scope, value, name);
      return;
    }
    value = builder_.convert(scope, value, tensor.dtype, name);
    const Layout layout = layout_of_gradient(scope);
    const auto sum = std::ranges::find(sums(id), layout, &GradientSum::layout);
    if (sum == sums(id).end()) {
      sums(id).push_back({layout, value});
    } else {
      --holders_[sum->value];
      sum->value = value = add(scope, sum->value, value, name);
    }
    ++holders_[value];
  }

  // Sums gradients of parameters in f32.
  void contribute_to_parameter(const Scope& scope, ValueId value, const std::string& name) {
    const auto [sum, accumulate] = gradients_.target(scope.op, step_input(scope));
    if (!accumulate && builder_.value(value).dtype != DType::f32) {
      builder_.convert(scope, value, DType::f32, name, sum);
      return;
    }
    value = builder_.convert(scope, value, DType::f32, name);
    if (accumulate) {
      builder_.emit(scope, Opcode::add, name + ".add", {sum, value}, {sum});
    } else {
      builder_.emit(scope, Opcode::slice, name, {value}, {sum});
    }
  }

  const LoweringInput& input_;
  const Graph& graph_;
  const bool splits_;
  const ForwardState& forward_;
  Recomputation& recomputation_;
  ParameterGradients& gradients_;
  BackwardState& state_;
  std::map<ValueId, int>& holders_;
  ProgramBuilder& builder_;
  std::vector<std::vector<GradientSum>>* sums_ = nullptr;  // of the microbatch
  std::vector<WeightsStep>* weights_ = nullptr;            // of the microbatch and chunk
};

}  // namespace

void write_backward(const LoweringInput& input, const TaskLists& lists, bool splits,
                    const ForwardState& forward, Recomputation& recomputation,
                    ParameterGradients& gradients, BackwardState& state, ProgramBuilder& builder) {
  BackwardPass(input, splits, forward, recomputation, gradients, state, builder).run(lists);
}

}  // namespace hidup
