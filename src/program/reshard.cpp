#include "sharding/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/builder.h"
#include "program/packing.h"

namespace hidup {
namespace {

// Returns true where the ranks' parts of a tensor follow each other in it.
bool parts_are_pieces(const Shape& shape, const Placement& cut) {
  return !cut.is_shard() || cut.share.is_one_rank() ||
         std::all_of(shape.begin(), shape.begin() + cut.dim, [](int64_t n) { return n == 1; });
}

// Returns the first of the sums that end the route; its length where another step ends it.
size_t first_of_last_sums(const Route& steps) {
  const auto other = std::find_if(steps.rbegin(), steps.rend(), [](const ReshardStep& step) {
    return step.kind != ReshardKind::all_reduce;
  });
  return static_cast<size_t>(steps.rend() - other);
}

}  // namespace

bool reorders_parts(const Mesh& mesh, const Instruction& instruction) {
  if (!instruction.flat || is_joint_exchange(instruction)) {
    return !instruction.inner_axes.empty();
  }
  int64_t stride = stride_of(mesh, static_cast<size_t>(instruction.axis));
  for (const int axis : instruction.inner_axes) {
    const int64_t inside = stride_of(mesh, static_cast<size_t>(axis));
    if (inside > stride) {
      return true;
    }
    stride = inside;
  }
  return false;
}

Packing packing_of(Opcode opcode, bool several, bool reorders, const Shape& shape,
                   const Placement& from, const Placement& to) {
  const bool sends_parts = opcode == Opcode::reduce_scatter || opcode == Opcode::all_to_all;
  const bool gets_parts = opcode == Opcode::all_gather || opcode == Opcode::all_to_all;
  const bool exchanges = sends_parts || gets_parts || opcode == Opcode::move;
  const auto in_order = [&](const Placement& cut) {
    return !reorders && parts_are_pieces(shape, cut);
  };
  return {.sent = (exchanges && several) || (sends_parts && !in_order(to)),
          .received = ((exchanges || opcode == Opcode::broadcast) && several) ||
                      (gets_parts && !in_order(from))};
}

void round_sums(const Mesh& mesh, Instruction& instruction, DType values,
                std::optional<DType> wanted) {
  const std::optional<ReshardKind> kind = spec_of(instruction.opcode).reshard;
  const bool sums = kind == ReshardKind::all_reduce || kind == ReshardKind::reduce_scatter;
  if (!wanted || *wanted == values || !sums || values != DType::f32) {
    return;
  }
  auto ranks = static_cast<int64_t>(instruction.group.size());
  ranks = ranks > 0 ? ranks : mesh[static_cast<size_t>(instruction.axis)].size;
  for (const int inner : instruction.inner_axes) {
    ranks *= mesh[static_cast<size_t>(inner)].size;
  }
  if (ranks > 1) {
    instruction.sent_as = wanted;
    instruction.flat = false;
  }
}

Value buffer_of_sums(const Instruction& instruction, const std::vector<ValueId>& sums) {
  Value buffer{.name = instruction.name + ".rounded",
               .dtype = instruction.sent_as.value(),
               .holds = instruction.inputs,
               .summed_along = {static_cast<size_t>(instruction.axis)}};
  buffer.holds.insert(buffer.holds.end(), sums.begin(), sums.end());
  buffer.summed_along.insert(buffer.summed_along.end(), instruction.inner_axes.begin(),
                             instruction.inner_axes.end());
  return buffer;
}

double copies_per_buffer(const Instruction& instruction) {
  if (instruction.sent_as && instruction.opcode == Opcode::all_reduce) {
    return 2.0;
  }
  return is_joint_exchange(instruction) && !instruction.flat ? 1.5 : 1.0;
}

ValueId ProgramBuilder::reshard(const Scope& scope, ValueId from, const Layout& to,
                                const std::string& name, bool overwrite) {
  return reshard(scope, ValueIds{from}, to, name, overwrite)[0];
}

ValueIds ProgramBuilder::reshard(const Scope& scope, const ValueIds& from, const Layout& to,
                                 const std::string& name, bool overwrite, const ValueIds& into) {
  if (value(from[0]).layout == to) {
    return from;
  }
  ValueIds now = from;
  const Route steps =
      choose_route_({value(from[0]), to, bytes_of(from), {from.size() > 1, scope.sums_sent_as}});
  // After the last step that is no sum, parts stay as they are, so sums work in the final place.
  const size_t sums = first_of_last_sums(steps);
  for (size_t s = 0; s < steps.size(); ++s) {
    const Opcode opcode = opcode_of(steps[s].kind);
    const std::string step_name = fmt::format("{}.{}", name, name_of(steps[s].kind));
    ValueIds next;
    for (size_t v = 0; v < now.size(); ++v) {
      if (s + 1 >= sums && !into.empty()) {
        next.push_back(into[v]);
      } else if (opcode == Opcode::all_reduce && overwrite) {
        value(now[v]).layout = steps[s].to;
        next.push_back(now[v]);
      } else {
        const Value& old = value(now[v]);
        next.push_back(add({.name = now.size() == 1 ? step_name : old.name + ".part",
                            .dtype = old.dtype,
                            .shape = old.shape,
                            .layout = steps[s].to,
                            .batch = old.batch,
                            .decay = old.decay,
                            .packed = old.packed}));
      }
    }
    // A sum of several values at once needs contiguous values. Local work goes value by value.
    if (is_local(steps[s].kind) || (opcode == Opcode::all_reduce && !one_piece(now))) {
      for (size_t v = 0; v < now.size(); ++v) {
        emit_reshard(scope, steps[s], step_name, {now[v]}, {next[v]});
      }
    } else {
      emit_reshard(scope, steps[s], step_name, now, next);
    }
    now = next;
    overwrite = true;
  }
  return now;
}

bool ProgramBuilder::one_piece(const ValueIds& values) const {
  return values.size() == 1 || std::ranges::all_of(values, [this](ValueId id) {
           return value(id).role == Value::Role::gradient || value(id).role == Value::Role::result;
         });
}

// Counts the whole batch, so that all microbatches have the same routes.
double ProgramBuilder::bytes_of(const ValueIds& values) const {
  double bytes = 0.0;
  for (const ValueId id : values) {
    Shape shape = value(id).shape;
    if (const BatchPart& batch = value(id).batch; batch.dim >= 0) {
      shape[static_cast<size_t>(batch.dim)] = batch.global;
    }
    bytes += static_cast<double>(elements(shape) * size_of(value(id).dtype));
  }
  return bytes;
}

bool ProgramBuilder::leaves_stage(const Scope& scope, const ReshardStep& step,
                                  const Placement& from, const Placement& to) const {
  return pipeline_ && step.axis == *pipeline_ && !scope.common && from.share != to.share &&
         !from.share.is_equal() && !to.share.is_equal();
}

// Messages go through buffers unless the values have them in sending order.
void ProgramBuilder::emit_reshard(const Scope& scope, const ReshardStep& step,
                                  const std::string& name, const ValueIds& inputs,
                                  ValueIds outputs) {
  const Opcode opcode = opcode_of(step.kind);
  const Placement from =
      value(inputs[0]).layout[step.axis];  // already the sum's layout where a sum works in place
  const Placement to = value(outputs[0]).layout[step.axis];
  const DType dtype = value(inputs[0]).dtype;
  const bool has_group = !collective_of(opcode).empty() && step.inner.empty();
  Instruction like{
      .opcode = opcode,
      .axis = static_cast<int>(step.axis),
      .inner_axes = {step.inner.begin(), step.inner.end()},
      .flat = step.flat,
      .group = has_group ? ranks_concerned(mesh()[step.axis], from, to) : std::vector<int64_t>()};
  round_sums(mesh(), like, dtype, scope.sums_sent_as);
  const Packing packing = packing_of(opcode, inputs.size() > 1, reorders_parts(mesh(), like),
                                     value(inputs[0]).shape, from, to);
  const ValueIds results = outputs;
  Value send{.name = name + ".send", .dtype = dtype, .holds = inputs};
  Value receive{.name = name + ".receive", .dtype = dtype, .holds = results};
  if (opcode == Opcode::all_to_all && !step.inner.empty() && !step.flat) {
    send.holds.insert(send.holds.end(), results.begin(), results.end());
    send.exchanged_along = step.inner;
    send.exchanged_along.insert(send.exchanged_along.begin(), step.axis);
    receive.holds = send.holds;
    receive.exchanged_along = send.exchanged_along;
  }
  if (packing.sent) {
    outputs.push_back(add(std::move(send)));
  }
  if (packing.received) {
    outputs.push_back(add(std::move(receive)));
  }
  Instruction& instruction = emit(scope, opcode, name, inputs, outputs);
  if (!collective_of(opcode).empty() && leaves_stage(scope, step, from, to)) {
    instruction.stream = scope.phase == Phase::forward ? StreamKind::down : StreamKind::up;
  }
  instruction.axis = like.axis;
  instruction.inner_axes = like.inner_axes;
  instruction.flat = like.flat;
  instruction.group = like.group;
  instruction.sent_as = like.sent_as;
  instruction.attributes = ReshardAttributes{.packs = packing.sent, .unpacks = packing.received};
  if (instruction.sent_as) {
    instruction.outputs.push_back(add(buffer_of_sums(instruction, results)));
  }
}

}  // namespace hidup
