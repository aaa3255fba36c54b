#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.h"
#include "graph/operation.h"
#include "program/lowering.h"
#include "program/opcodes.h"
#include "sharding/reshard.h"

namespace hidup {

void Lowering::add_parameters() {
  for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.role != Tensor::Role::parameter) {
      continue;
    }
    Value value{.name = tensor.name,
                .role = Value::Role::parameter,
                .dtype = tensor.dtype,
                .shape = tensor.shape,
                .layout = stored_.at(id)->storage,
                .init = tensor.init,
                .decay = tensor.decay};
    stored_copies_[index(id)] = {add_value(value)};
    value.role = Value::Role::optimizer_state;
    value.dtype = DType::f32;
    value.layout = stored_.at(id)->optimizer_state;
    if (tensor.dtype != DType::f32) {
      value.name = tensor.name + ".master";
      value.master_of = stored_copies_[index(id)][0];
      masters_[id] = add_value(value);
      value.master_of = -1;
    }
    for (const char* moment : {"m", "v"}) {
      value.name = fmt::format("{}.{}", tensor.name, moment);
      moments_[id].push_back(add_value(value));
    }
  }
}

// An input of the step: every rank gets just its part.
ValueId Lowering::add_input(TensorId id, const Layout& layout) {
  const ValueId value = add_tensor(id, graph_.tensor(id).name, layout);
  program_.values[index(value)].role = Value::Role::input;
  (graph_.tensor(id).name == "tokens" ? program_.tokens : program_.targets).push_back(value);
  return value;
}

void Lowering::plan_parameter_buckets() {
  for (OpId op = 0; op < op_count(); ++op) {
    for (size_t i = 0; i < graph_.op(op).inputs.size(); ++i) {
      const TensorId id = graph_.op(op).inputs[i];
      if (role(id) != Tensor::Role::parameter) {
        continue;
      }
      const Layout storage = stored_.at(id)->storage;
      const Layout wanted = input_layout(ways(op), i);
      if (reshards_locally(storage, wanted) ||
          parameter_bucket_.contains({id, to_string(wanted)})) {
        continue;
      }
      const auto open = std::ranges::find_if(
          parameter_buckets_.rbegin(), parameter_buckets_.rend(),
          [&](const ParameterBucket& b) { return b.storage == storage && b.wanted == wanted; });
      const bool full = open != parameter_buckets_.rend() && open->bytes >= options_.bucket_bytes;
      const bool begins = open == parameter_buckets_.rend() || full;
      const auto at =
          begins ? parameter_buckets_.insert(parameter_buckets_.end(), {storage, wanted, {}})
                 : open.base() - 1;
      if (begins) {
        gathers_.insert(op);
      }
      at->parameters.push_back(id);
      at->bytes += bytes_of(id);
      parameter_bucket_[{id, to_string(wanted)}] =
          static_cast<size_t>(at - parameter_buckets_.begin());
    }
  }
}

void Lowering::gather_parameters(const ParameterBucket& bucket) {
  Operands stored;
  for (const TensorId id : bucket.parameters) {
    stored.push_back(copies(id)[0]);
  }
  const std::string name = stored.size() == 1
                               ? graph_.tensor(bucket.parameters[0]).name
                               : fmt::format("parameters.{}", &bucket - parameter_buckets_.data());
  const Operands gathered =
      in_common([&] { return reshard_all(stored, bucket.wanted, name, false); });
  for (size_t i = 0; i < gathered.size(); ++i) {
    copies(bucket.parameters[i]).push_back(gathered[i]);
  }
}

ValueId Lowering::copy_in(TensorId id, const Layout& layout) {
  for (const ValueId copy : copies(id)) {
    if (program_.value(copy).layout == layout) {
      return copy;
    }
  }
  return -1;
}

ValueId Lowering::operand(OpId op, size_t input) {
  const TensorId id = graph_.op(op).inputs[input];
  const Layout wanted = input_layout(ways(op), input);
  if (const ValueId copy = copy_in(id, wanted); copy >= 0) {
    return copy;
  }
  const auto bucket = parameter_bucket_.find({id, to_string(wanted)});
  if (bucket != parameter_bucket_.end()) {
    gather_parameters(parameter_buckets_[bucket->second]);
    return copy_in(id, wanted);
  }
  Operands& values = copies(id);
  if (role(id) == Tensor::Role::input) {
    values.push_back(add_input(id, wanted));
    return values.back();
  }
  const auto nearby = std::ranges::find_if(
      values, [&](ValueId v) { return reshards_locally(program_.value(v).layout, wanted); });
  const ValueId from = nearby == values.end() ? values[0] : *nearby;
  const bool overwrite = role(id) == Tensor::Role::activation && wanted_[index(id)].size() == 1 &&
                         !needed_by_producer(id);
  const auto move = [&] { return reshard(from, wanted, graph_.tensor(id).name, overwrite); };
  const ValueId value = role(id) == Tensor::Role::parameter ? in_common(move) : move();
  if (value != from) {
    values.push_back(value);
  }
  return value;
}

bool Lowering::needed_by_producer(TensorId id) const {
  return spec_of(graph_.op(graph_.tensor(id).producer).kind).backward_needs_output;
}

bool Lowering::overwrites(OpId op, size_t input) const {
  const Op& self = graph_.op(op);
  const TensorId id = self.inputs[input];
  return spec_of(self.kind).in_place && role(id) == Tensor::Role::activation &&
         consumers_[index(id)] == 1 && !spec_of(self.kind).backward_needs_input[input] &&
         !needed_by_producer(id);
}

ValueId Lowering::add_output(OpId id, const Operands& inputs) {
  const Op& op = graph_.op(id);
  const Layout layout = output_layout(ways(id));
  const size_t last = op.kind == OpKind::add ? 1 : 0;  // the last activation input
  if (overwrites(id, last)) {
    check(program_.value(inputs[last]).layout == layout, "{} changes its layout in place",
          graph_.op_name(id));
    copies(op.output) = {inputs[last]};
  } else if (op.kind == OpKind::cross_entropy && !first_lane()) {
    copies(op.output) = {program_.loss};  // which is a sum over the microbatches
  } else {
    copies(op.output) = {add_tensor(op.output, graph_.op_name(id), layout)};
  }
  return copies(op.output)[0];
}

void Lowering::forward(OpId id) {
  const Op& op = graph_.op(id);
  const OperationSpec& spec = spec_of(op.kind);
  const std::string& name = graph_.op_name(id);
  phase_ = Phase::forward;

  Operands inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.push_back(operand(id, i));
  }
  lane().operands[index(id)] = inputs;
  Operands outputs = {add_output(id, inputs)};
  for (const std::string_view saved : spec.saved) {
    Value value{.name = fmt::format("{}.{}", name, saved),
                .shape = saved_shape(op.kind, shapes_of(op)),
                .layout = saved_layout(ways(id))};
    split(value, 0);
    outputs.push_back(add_value(std::move(value)));
  }
  lane().saved[index(id)] = {outputs.begin() + 1, outputs.end()};

  if (op.kind == OpKind::cross_entropy) {
    emit_cross_entropy(id, inputs, outputs[0], outputs[1]);
    return;
  }
  Instruction& instruction = emit(forward_opcode(op.kind), name, inputs, outputs);
  instruction.attributes = op.attributes;
  if (op.kind == OpKind::dropout) {
    instruction.purpose = dropout_purpose(id);
  }
  if (op.kind == OpKind::route) {
    instruction.purpose = "route/" + name;
    emit_expert_load(id, outputs[0]);
  }
}

// Where the classes are cut, ranks exchange two numbers per target: the log-sum-exp of
// their classes, and the target's logit where they have it.
void Lowering::emit_cross_entropy(OpId id, const Operands& inputs, ValueId loss, ValueId lse) {
  const std::string& name = graph_.op_name(id);
  program_.loss = loss;
  program_.values[index(loss)].role = Value::Role::result;
  const double scale = loss_scale(graph_.op(id));

  const ClassStats layouts = class_stats(graph_, id, ways(id), program_.mesh);
  if (layouts.parts == 1) {
    Instruction& instruction = emit(Opcode::cross_entropy, name, inputs, {loss, lse});
    instruction.attributes["scale"] = scale;
    instruction.accumulate = !first_lane();
    return;
  }
  Value stats{.name = name + ".stats",
              .shape = program_.value(lse).shape,
              .layout = layouts.made,
              .batch = program_.value(lse).batch};
  stats.batch.dim += stats.batch.dim < 0 ? 0 : 1;
  stats.shape.insert(stats.shape.begin(), layouts.parts);
  stats.shape.push_back(2);
  const ValueId mine = add_value(std::move(stats));
  emit(Opcode::cross_entropy_stats, name + ".stats", inputs, {mine});
  const ValueId all = reshard(mine, layouts.needed, name + ".stats", true);
  Instruction& instruction = emit(Opcode::cross_entropy_merge, name, {all}, {loss, lse});
  instruction.attributes["scale"] = scale;
  instruction.accumulate = !first_lane();
}

void Lowering::emit_expert_load(OpId id, ValueId routing) {
  const Op& op = graph_.op(id);
  const int64_t experts = graph_.tensor(op.inputs[0]).shape.back();
  Layout layout = program_.value(routing).layout;
  for (Placement& placement : layout) {
    placement = placement.is_shard() ? Placement::partial() : placement;
  }
  const std::string name = graph_.op_name(id) + ".load";
  const ValueId load = add_value({.name = name, .shape = {2, experts}, .layout = layout});
  emit(Opcode::expert_load, name, {routing}, {load}).attributes["capacity"] =
      op.attributes.at("capacity");
  if (first_lane()) {
    program_.values[index(load)].role = Value::Role::result;
    program_.expert_loads.push_back(load);
    loads_[id] = load;
  } else {
    emit(Opcode::add, name + ".add", {loads_.at(id), load}, {loads_.at(id)});
  }
}

std::vector<Shape> Lowering::shapes_of(const Op& op) const {
  std::vector<Shape> shapes;
  for (const TensorId input : op.inputs) {
    shapes.push_back(graph_.tensor(input).shape);
  }
  return shapes;
}

double Lowering::loss_scale(const Op& op) const {
  return 1.0 / static_cast<double>(elements(graph_.tensor(op.inputs[1]).shape));
}

void Lowering::reduce_results() {
  common_ = true;
  Operands results = program_.expert_loads;  // which lie in the arena before the loss
  results.push_back(program_.loss);
  const Layout layout = program_.value(program_.loss).layout;
  if (std::ranges::all_of(results, [&](ValueId v) { return program_.value(v).layout == layout; })) {
    reshard_all(results, replicated(), "loss", true);
  } else {
    for (const ValueId result : results) {
      reshard(result, replicated(), program_.value(result).name, true);
    }
  }
  common_ = false;
  weave();
}

}  // namespace hidup
