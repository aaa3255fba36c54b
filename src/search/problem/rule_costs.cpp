#include "search/problem/rule_costs.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "graph/batch.h"
#include "graph/operation.h"
#include "program/class_stats.h"

namespace hidup {
namespace {

bool has_batch(const Tensor& tensor) {
  return tensor.role != Tensor::Role::parameter && !tensor.shape.empty();
}

}  // namespace

RuleCosts::RuleCosts(const Graph& graph, const Mesh& mesh, const CostModel& costs, int microbatches,
                     int64_t bucket_bytes, DType gradients_as,
                     std::shared_ptr<const ReshardCosts> reshards)
    : graph_(graph),
      mesh_(with_equal_shares(mesh)),
      costs_(costs),
      microbatches_(microbatches),
      bucket_bytes_(bucket_bytes),
      gradients_as_(gradients_as),
      parameters_(static_cast<double>(graph.parameter_count())),
      reshards_(reshards != nullptr ? std::move(reshards)
                                    : std::make_shared<const ReshardCosts>(mesh, costs)) {
  const int64_t left = microbatches > 1 ? batch_of(graph) % microbatches : 0;
  if (left > 0) {
    larger_ = static_cast<double>(left) / microbatches;
  }
}

// The program of a single operation.
class RuleCosts::Sketch {
 public:
  Sketch(const RuleCosts& rules, OpId op, const OpStrategy& op_strategy, Part part)
      : rules_(rules), id_(op), op_(rules.graph_.op(op)), strategy_(op_strategy), part_(part) {
    program_.mesh = rules.mesh_;
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      in_.push_back(add(op_.inputs[i], input_layout(op_strategy, i)));
    }
    out_ = add(op_.output, output_layout(op_strategy));
    const Tensor& first = rules.graph_.tensor(op_.inputs[0]);
    for (size_t s = 0; s < spec_of(op_.kind).saved.size(); ++s) {
      saved_.push_back(add(rules.split(saved_shape(op_.kind, first.shape), first.batch_dim(), part),
                           DType::f32, saved_layout(op_strategy)));
    }
  }

  Choice costs() {
    Choice choice;
    choice.forward_compute_s = forward();
    if (has_backward(op_)) {
      choice.backward_compute_s = backward();
      const Reshard gathers = factors();
      choice.backward_comm_s = gathers.comm_s;
      choice.backward_compute_s += gathers.compute_s;
    }
    if (!saved_.empty()) {
      const Tensor& first = rules_.graph_.tensor(op_.inputs[0]);
      choice.saved_bytes = static_cast<double>(saved_.size()) *
                           rules_.bytes({.dtype = DType::f32,
                                         .shape = saved_shape(op_.kind, first.shape),
                                         .layout = saved_layout(strategy_)},
                                        first.batch_dim());
    }
    choice.forward_comm_s = stats_comm_s_;
    return choice;
  }

  // Returns the cost of gathering the factors of gradients that every rank computes whole.
  Reshard factors() {
    const ValueId dy = add(op_.output, gradient_of(output_layout(strategy_)));
    Reshard total;
    for (const BackwardStep& step : forward_of(op_.kind).backward) {
      for (const ValueId value : step.opcode ? operands(step, dy) : Values{}) {
        const Value& operand = program_.value(value);
        const Reshard gather = rules_.reshards_->cheapest(
            operand, factor_layout(strategy_, step.gradients_of[0], operand.layout), {});
        total.comm_s += gather.comm_s;
        total.compute_s += gather.compute_s;
      }
    }
    return total;
  }

 private:
  using Values = std::vector<ValueId>;

  ValueId add(Value value) {
    program_.values.push_back(std::move(value));
    return static_cast<ValueId>(program_.values.size()) - 1;
  }
  ValueId add(const Shape& shape, DType dtype, const Layout& layout) {
    return add({.dtype = dtype, .shape = shape, .layout = layout});
  }
  ValueId add(TensorId id, const Layout& layout) { return add(rules_.value(id, layout, part_)); }
  ValueId gradient(size_t input) {
    const ValueId value = add(op_.inputs[input], gradient_layout(strategy_, input));
    if (rules_.graph_.tensor(op_.inputs[input]).role == Tensor::Role::parameter) {
      program_.values[static_cast<size_t>(value)].dtype = DType::f32;
    }
    return value;
  }

  double seconds(Opcode opcode, const Values& inputs, const Values& outputs) {
    const Instruction instruction{.opcode = opcode,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .attributes = attributes_of(opcode, op_)};
    return rules_.reshards_->operation_s(program_, instruction) + rules_.costs_.launch_s();
  }

  double forward() {
    Values outputs = {out_};
    outputs.insert(outputs.end(), saved_.begin(), saved_.end());
    if (op_.kind == OpKind::cross_entropy) {
      return cross_entropy(outputs);
    }
    return seconds(forward_of(op_.kind).opcode, in_, outputs);
  }

  double cross_entropy(const Values& outputs) {
    const ClassStats layouts = class_stats(rules_.graph_, id_, strategy_, rules_.mesh_);
    if (layouts.parts == 1) {
      return seconds(Opcode::cross_entropy, in_, outputs);
    }
    const Tensor& targets = rules_.graph_.tensor(op_.inputs[1]);
    Shape shape = rules_.split(targets.shape, targets.batch_dim(), part_);
    shape.insert(shape.begin(), layouts.parts);
    shape.push_back(kClassStats);
    const ValueId stats = add(shape, DType::f32, layouts.made);
    stats_comm_s_ = rules_.reshards_->cheapest(program_.value(stats), layouts.needed, {}).comm_s;
    return seconds(Opcode::cross_entropy_stats, in_, {stats}) +
           seconds(Opcode::cross_entropy_merge, {stats, in_[1]}, outputs);
  }

  double backward() {
    const ValueId dy = add(op_.output, gradient_of(output_layout(strategy_)));
    double total_s = 0.0;
    for (const BackwardStep& step : forward_of(op_.kind).backward) {
      if (step.opcode && is_needed(step, rules_.graph_, op_)) {
        total_s += instruction_s(step, dy);
      }
    }
    return total_s;
  }

  Values operands(const BackwardStep& step, ValueId dy) const {
    using From = BackwardOperand::From;
    Values inputs;
    for (const auto& [from, index] : step.operands) {
      inputs.push_back(from == From::input    ? in_[index]
                       : from == From::saved  ? saved_[index]
                       : from == From::output ? out_
                                              : dy);
    }
    return inputs;
  }

  double instruction_s(const BackwardStep& step, ValueId dy) {
    Values inputs;
    for (const ValueId value : operands(step, dy)) {
      Value operand = program_.value(value);
      operand.layout = factor_layout(strategy_, step.gradients_of[0], operand.layout);
      inputs.push_back(add(std::move(operand)));
    }
    Values outputs;
    for (const size_t input : step.gradients_of) {
      outputs.push_back(gradient(input));
    }
    return seconds(*step.opcode, inputs, outputs);
  }

  const RuleCosts& rules_;
  OpId id_;
  const Op& op_;
  const OpStrategy& strategy_;
  Part part_;
  Program program_;
  Values in_, saved_;
  ValueId out_ = -1;
  double stats_comm_s_ = 0.0;  // of a cross-entropy with cut classes
};

Choice RuleCosts::operation(OpId op, const OpStrategy& op_strategy) const {
  Choice choice = Sketch(*this, op, op_strategy, Part::larger).costs();
  if (larger_ < 1.0) {
    const Choice smaller = Sketch(*this, op, op_strategy, Part::smaller).costs();
    for (double Choice::*seconds : {&Choice::forward_compute_s, &Choice::backward_compute_s,
                                    &Choice::forward_comm_s, &Choice::backward_comm_s}) {
      choice.*seconds = average(choice.*seconds, smaller.*seconds);
    }
  }
  return choice;
}

double RuleCosts::factors_s(OpId op, const OpStrategy& op_strategy) const {
  const double larger = Sketch(*this, op, op_strategy, Part::larger).factors().comm_s;
  return larger_ == 1.0
             ? larger
             : average(larger, Sketch(*this, op, op_strategy, Part::smaller).factors().comm_s);
}

Reshard RuleCosts::sync(const OpStrategy& op_strategy, size_t input,
                        const ParameterLayouts& stored) const {
  const Value gradient{.dtype = DType::f32,
                       .shape = graph_.tensor(stored.tensor).shape,
                       .layout = gradient_layout(op_strategy, input)};
  return in_bucket(gradient, stored.optimizer_state, gradients_as_);
}

double RuleCosts::total_s(const Layout& layout) const {
  const Layout all(mesh_.size(), Placement::replicate());
  const Reshard sum =
      reshards_->cheapest({.dtype = DType::f32, .shape = {}, .layout = layout}, all, {});
  return sum.comm_s + sum.compute_s;
}

Shape RuleCosts::split(Shape shape, int dim, Part part) const {
  if (microbatches_ > 1) {
    int64_t& extent = shape.at(static_cast<size_t>(dim));
    extent = (extent + (part == Part::larger ? microbatches_ - 1 : 0)) / microbatches_;
  }
  return shape;
}

double RuleCosts::bytes(TensorId id, const Layout& layout) const {
  const Tensor& tensor = graph_.tensor(id);
  return bytes({.dtype = tensor.dtype,
                .shape = tensor.shape,
                .layout = layout,
                .packed = packed_rows_of(graph_, id)},
               has_batch(tensor) ? tensor.batch_dim() : -1);
}

double RuleCosts::bytes(const Value& whole, int batch) const {
  const auto count = static_cast<size_t>(batch < 0 ? 1 : microbatches_);
  Program program{.mesh = mesh_, .values = std::vector<Value>(count, whole)};
  const int64_t global = batch < 0 ? 1 : whole.shape[static_cast<size_t>(batch)];
  const std::vector<int64_t> offsets = balanced_offsets(global, static_cast<int64_t>(count));
  for (size_t m = 0; m < count && count > 1; ++m) {
    program.values[m].shape[static_cast<size_t>(batch)] = offsets[m + 1] - offsets[m];
    program.values[m].batch = {batch, offsets[m], global};
  }
  return reshards_->largest(program, [&](int64_t rank) {
    int64_t bytes = 0;
    for (size_t m = 0; m < count; ++m) {
      bytes += program.local_bytes(static_cast<ValueId>(m), rank);
    }
    return bytes;
  });
}

Value RuleCosts::value(TensorId id, const Layout& layout, Part part) const {
  const Tensor& tensor = graph_.tensor(id);
  return {.dtype = tensor.dtype,
          .shape = has_batch(tensor) ? split(tensor.shape, tensor.batch_dim(), part) : tensor.shape,
          .layout = layout,
          .packed = packed_rows_of(graph_, id)};
}

Reshard RuleCosts::reshard(TensorId tensor, const Layout& from, const Layout& to, bool kept) const {
  const auto costs = [&](Part part) {
    return reshards_->cheapest(value(tensor, from, part), to, {});
  };
  Reshard total = costs(Part::larger);
  if (larger_ < 1.0 && has_batch(graph_.tensor(tensor))) {
    const Reshard smaller = costs(Part::smaller);
    total.comm_s = average(total.comm_s, smaller.comm_s);
    total.compute_s = average(total.compute_s, smaller.compute_s);
  }
  total.bytes = kept && from != to ? bytes(tensor, to) : 0.0;
  return total;
}

Reshard RuleCosts::in_bucket(const Value& value, const Layout& to,
                             std::optional<DType> sums_as) const {
  const Sending how{.several = true, .sums_as = sums_as};
  const double bytes = static_cast<double>(elements(value.shape) * size_of(value.dtype));
  const auto bucket = static_cast<double>(bucket_bytes_);
  if (bytes <= 0.0 || bytes >= bucket) {
    return reshards_->cheapest(value, to, how);
  }
  const Value whole = grown_to(value, bucket);
  const double grown = static_cast<double>(elements(whole.shape) * size_of(whole.dtype));
  return {.comm_s = reshards_->cheapest(whole, to, how).comm_s * bytes / grown,
          .compute_s = reshards_->cheapest(value, to, how).compute_s};
}

TransientBytes RuleCosts::add_parameter(const OpStrategy& op_strategy, size_t input,
                                        const ParameterLayouts& stored, Choice& choice) const {
  const Tensor& tensor = graph_.tensor(stored.tensor);
  const auto value = [&](const Layout& layout, DType dtype) {
    return Value{.dtype = dtype, .shape = tensor.shape, .layout = layout};
  };
  const bool rounds = tensor.dtype != DType::f32;  // from an f32 master
  const Layout used = input_layout(op_strategy, input);
  const Reshard gather = in_bucket(value(stored.storage, tensor.dtype), used);
  choice.gather_s += gather.comm_s;
  choice.step_s += gather.compute_s;
  if (!tensor.learned) {  // it has neither gradient nor optimizer state
    choice.persistent_bytes += bytes(stored.tensor, stored.storage);
    return {.gathered = used != stored.storage ? bytes(stored.tensor, used) : 0.0};
  }
  const Reshard sync = this->sync(op_strategy, input, stored);
  choice.sync_s += sync.comm_s;
  choice.step_s += sync.compute_s;

  const Value scalar{.layout = Layout(mesh_.size(), Placement::replicate())};
  const Program program{.mesh = mesh_,
                        .values = {value(stored.optimizer_state, DType::f32), scalar,
                                   value(stored.optimizer_state, tensor.dtype)}};
  const auto seconds = [&](Opcode opcode, const std::vector<ValueId>& in,
                           const std::vector<ValueId>& out) {
    const Instruction instruction{
        .opcode = opcode, .inputs = in, .outputs = out, .attributes = spec_of(opcode).attributes};
    return reshards_->operation_s(program, instruction);
  };
  choice.step_s += seconds(Opcode::squared_norm, {0}, {1});
  // One message sums the squares of all parameters with the same parts; each pays a share.
  choice.step_s += total_s(summed_parts(stored.optimizer_state, mesh_)) *
                   static_cast<double>(elements(tensor.shape)) / parameters_;
  choice.step_s += rounds ? seconds(Opcode::adam_rounded, {0, 0, 0, 0}, {0, 0, 0, 2})
                          : seconds(Opcode::adam, {0, 0, 0, 0}, {0, 0, 0});
  if (stored.storage != stored.optimizer_state) {
    const Reshard out =
        rounds ? Reshard{} : in_bucket(value(stored.storage, DType::f32), stored.optimizer_state);
    const Reshard back = in_bucket(value(stored.optimizer_state, tensor.dtype), stored.storage);
    choice.step_s += out.comm_s + out.compute_s + back.comm_s + back.compute_s;
  }
  const double widths =
      static_cast<double>(size_of(DType::f32)) / static_cast<double>(size_of(tensor.dtype));
  const double sum = widths * bytes(stored.tensor, gradient_layout(op_strategy, input));
  const double state = widths * bytes(stored.tensor, stored.optimizer_state);
  const bool in_place =
      only_sums(gradient_layout(op_strategy, input), stored.optimizer_state, mesh_);
  choice.persistent_bytes += bytes(stored.tensor, stored.storage) + (rounds ? 3.0 : 2.0) * state +
                             (in_place ? sum : state);
  return {.gathered = used != stored.storage ? bytes(stored.tensor, used) : 0.0,
          .sums = in_place ? 0.0 : sum,
          .undivided = static_cast<double>(elements(tensor.shape) * size_of(DType::f32))};
}

double RuleCosts::interference() const {
  constexpr double kTypicalBytes = 1 << 20;
  double most = 0.0;
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    const MessageTime time = costs_.collective(Opcode::all_reduce, axis, kTypicalBytes);
    if (mesh_[axis].size <= 1 || time.alone_s <= 0.0 || time.beside_s <= 0.0) {
      continue;
    }
    // The relative paces of communication and computation while both run.
    const double comm = std::min(1.0, time.alone_s / time.beside_s);
    const double compute = 1.0 / std::max(1.0, time.slowdown);
    most = std::max(most, ((1.0 - compute) / comm + (1.0 - comm) / compute) / 2.0);
  }
  return std::min(1.0, most);
}

}  // namespace hidup
