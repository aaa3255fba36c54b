#include "program/lower.h"

#include <algorithm>
#include <utility>

#include "program/fuse.h"
#include "program/lowering.h"
#include "program/work.h"

namespace hidup {
namespace {

// On an axis of one rank all placements are the same; replicate does not communicate.
Strategy without_lone_ranks(const Graph& graph, Strategy strategy) {
  for (size_t axis = 0; axis < strategy.mesh.size(); ++axis) {
    if (strategy.mesh[axis].size > 1) {
      continue;
    }
    for (size_t op = 0; op < strategy.ops.size(); ++op) {
      strategy.ops[op].rules[axis] = replicate_rule(graph, static_cast<OpId>(op));
    }
    for (ParameterStrategy& parameter : strategy.parameters) {
      parameter.storage[axis] = parameter.optimizer_state[axis] = Placement::replicate();
    }
  }
  return strategy;
}

}  // namespace

Lowering::Lowering(const Graph& graph, const Strategy& strategy, const LoweringOptions& options)
    : graph_(graph), strategy_(without_lone_ranks(graph, strategy)), options_(options) {
  program_.name = graph.name();
  program_.mesh = strategy.mesh;
  stored_copies_.resize(graph.tensors().size());
  consumers_.resize(graph.tensors().size());
  wanted_.resize(graph.tensors().size());
  lanes_.resize(static_cast<size_t>(strategy.microbatches));
  // About what one rank needs: large lists are not moved while they grow.
  program_.values.reserve(4 * graph.tensors().size() * lanes_.size());
  program_.instructions.reserve(4 * graph.ops().size() * lanes_.size());
  for (Lane& lane : lanes_) {
    lane.instructions.reserve(3 * graph.ops().size());
    lane.copies.resize(graph.tensors().size());
    lane.gradient.resize(graph.tensors().size());
    lane.operands.resize(graph.ops().size());
    lane.saved.resize(graph.ops().size());
  }
}

Program Lowering::run() {
  prepare();
  add_parameters();
  plan_parameter_buckets();
  for (microbatch_ = 0; microbatch_ < strategy_.microbatches; ++microbatch_) {
    for (OpId op = 0; op < op_count(); ++op) {
      if (gathers_.contains(op)) {  // all microbatches compute while the next bucket comes
        lane().cuts.push_back(lane().instructions.size());
      }
      forward(op);
    }
  }
  weave();
  reduce_results();
  add_gradients();
  for (microbatch_ = 0; microbatch_ < strategy_.microbatches; ++microbatch_) {
    int64_t unsent = 0;
    for (OpId op = op_count() - 1; op >= 0; --op) {
      backward(op);
      if (last_lane()) {
        complete_gradients(op);
      }
      cut_behind_bucket(op, unsent);
    }
  }
  weave();
  close_buckets(0);
  update();
  weave();
  if (options_.fuse) {
    fuse_epilogues(program_);
    fuse_residual_norms(program_);
  }
  insert_waits(program_);
  estimate_work(program_);
  return std::move(program_);
}

void Lowering::prepare() {
  for (const ParameterStrategy& parameter : strategy_.parameters) {
    stored_[parameter.tensor] = &parameter;
  }
  for (OpId op = 0; op < op_count(); ++op) {
    const std::vector<TensorId>& inputs = graph_.op(op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      ++consumers_[index(inputs[i])];
      std::vector<Layout>& wanted = wanted_[index(inputs[i])];
      const Layout layout = input_layout(ways(op), i);
      if (std::ranges::find(wanted, layout) == wanted.end()) {
        wanted.push_back(layout);
      }
    }
  }
}

int64_t Lowering::bytes_of(TensorId id) const {
  return elements(graph_.tensor(id).shape) * size_of(graph_.tensor(id).dtype);
}

int64_t Lowering::gradient_bytes_of(TensorId id) const {
  return elements(graph_.tensor(id).shape) * size_of(DType::f32);
}

ValueId Lowering::add_value(Value value) {
  program_.values.push_back(std::move(value));
  return static_cast<ValueId>(program_.values.size()) - 1;
}

void Lowering::split(Value& value, int dim) const {
  if (strategy_.microbatches == 1) {
    return;
  }
  auto& extent = value.shape[static_cast<size_t>(dim)];
  const auto offsets = balanced_offsets(extent, strategy_.microbatches);
  value.batch = {dim, offsets[index(microbatch_)], extent};
  extent = offsets[index(microbatch_) + 1] - offsets[index(microbatch_)];
}

ValueId Lowering::add_tensor(TensorId id, const std::string& name, const Layout& layout) {
  const Tensor& tensor = graph_.tensor(id);
  Value value{.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .layout = layout};
  if (tensor.role != Tensor::Role::parameter && !tensor.shape.empty()) {
    split(value, 0);
  }
  return add_value(std::move(value));
}

ValueId Lowering::add_scalar(const std::string& name, Value::Role role, const Layout& layout) {
  return add_value({.name = name, .role = role, .shape = {}, .layout = layout});
}

Instruction& Lowering::emit(Opcode opcode, const std::string& name, Operands inputs,
                            Operands outputs) {
  Instruction instruction{
      .opcode = opcode,
      .name = name,
      .stream = collective_of(opcode).empty() ? StreamKind::compute : StreamKind::comm,
      .phase = phase_,
      .microbatch = common_ ? -1 : microbatch_,
      .inputs = std::move(inputs),
      .outputs = std::move(outputs)};
  std::vector<Instruction>& list = lane().instructions;
  list.push_back(std::move(instruction));
  return list.back();
}

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options) {
  return Lowering(graph, strategy, options).run();
}

}  // namespace hidup
