#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/operation.h"
#include "program/lowering.h"
#include "sharding/reshard.h"

namespace hidup {
namespace {

// Sums that become totals where they are.
bool only_sums(const Layout& from, const Layout& to) {
  return std::ranges::all_of(reshard_steps(from, to), [](const ReshardStep& step) {
    return step.kind == ReshardKind::all_reduce;
  });
}

}  // namespace

std::string Lowering::gradient_name(TensorId id) const {
  return graph_.tensor(id).name + ".gradient";
}

// Totals lie in memory by group, in the order in which the backward pass completes them, so that
// a bucket is one piece.
void Lowering::add_gradients() {
  for (OpId op = op_count() - 1; op >= 0; --op) {
    for (size_t i = 0; i < graph_.op(op).inputs.size(); ++i) {
      const TensorId id = graph_.op(op).inputs[i];
      if (role(id) != Tensor::Role::parameter || spec_of(graph_.op(op).kind).integer_output) {
        continue;
      }
      ParameterGradient& gradient = gradients_[id];
      gradient.completed_by = op;
      const Layout layout = gradient_layout(ways(op), i);
      if (std::ranges::find(gradient.sums, layout, &Sum::layout) == gradient.sums.end()) {
        gradient.sums.push_back({layout});
      }
    }
  }
  for (OpId op = op_count() - 1; op >= 0; --op) {
    for (const TensorId id : completed_by(op)) {
      ParameterGradient& gradient = gradients_.at(id);
      GradientGroup group{.total = stored_.at(id)->optimizer_state,
                          .storage = stored_.at(id)->storage};
      for (const Sum& sum : gradient.sums) {
        group.sums.push_back(sum.layout);
      }
      auto found = std::ranges::find(groups_, group);
      if (found == groups_.end()) {
        found = groups_.insert(groups_.end(), group);
      }
      found->members.push_back(id);
      gradient.group = static_cast<size_t>(found - groups_.begin());
    }
  }
  for (const GradientGroup& group : groups_) {
    const bool in_place = group.sums.size() == 1 && only_sums(group.sums[0], group.total);
    for (const TensorId id : group.members) {
      ParameterGradient& gradient = gradients_.at(id);
      const Value value{.name = gradient_name(id),
                        .role = Value::Role::gradient,
                        .shape = graph_.tensor(id).shape,
                        .layout = in_place ? group.sums[0] : group.total};
      gradient.total = add_value(value);
      for (Sum& sum : gradient.sums) {
        sum.value =
            in_place
                ? gradient.total
                : add_value(
                      {.name = value.name + ".sum", .shape = value.shape, .layout = sum.layout});
      }
    }
  }
}

std::vector<TensorId> Lowering::completed_by(OpId op) const {
  std::vector<TensorId> complete;
  for (const TensorId id : graph_.op(op).inputs) {
    if (role(id) == Tensor::Role::parameter && gradients_.at(id).completed_by == op &&
        std::ranges::find(complete, id) == complete.end()) {
      complete.push_back(id);
    }
  }
  return complete;
}

ValueId Lowering::activation_gradient(OpId op, size_t input, bool f32) {
  const TensorId id = graph_.op(op).inputs[input];
  const ValueId value = add_tensor(id, gradient_name(id), gradient_layout(ways(op), input));
  if (f32) {
    program_.values[index(value)].dtype = DType::f32;
  }
  return value;
}

ValueId Lowering::converted(ValueId value, DType dtype, const std::string& name, ValueId into) {
  if (program_.value(value).dtype == dtype) {
    return value;
  }
  if (into < 0) {
    Value result = program_.value(value);
    result.name = name;
    result.dtype = dtype;
    result.role = Value::Role::activation;
    into = add_value(std::move(result));
  }
  emit(Opcode::convert, name + ".convert", {value}, {into});
  return into;
}

bool Lowering::unshared(ValueId value) const {
  const auto found = holders_.find(value);
  return found == holders_.end() || found->second == 0;
}

// Out of place where another tensor's gradient still is this very value.
ValueId Lowering::add(ValueId a, ValueId b, const std::string& name) {
  ValueId result = unshared(b) ? b : a;
  if (!unshared(result)) {
    Value value = program_.value(b);
    value.name = name;
    result = add_value(std::move(value));
  }
  emit(Opcode::add, name + ".add", {a, b}, {result});
  return result;
}

ValueId Lowering::output_gradient(OpId op) {
  const TensorId id = graph_.op(op).output;
  const Layout wanted = gradient_of(output_layout(ways(op)));
  const std::vector<Sum> sums = std::exchange(lane().gradient[index(id)], {});
  for (const Sum& sum : sums) {
    --holders_[sum.value];
  }
  ValueId total = -1;
  for (const Sum& sum : sums) {
    const ValueId part = reshard(sum.value, wanted, gradient_name(id), unshared(sum.value));
    total = total < 0 ? part : add(total, part, gradient_name(id));
  }
  return total;
}

Lowering::Target Lowering::target_of(OpId op, size_t input) {
  const TensorId id = graph_.op(op).inputs[input];
  ParameterGradient& gradient = gradients_.at(id);
  const Layout layout = gradient_layout(ways(op), input);
  Sum& sum = *std::ranges::find(gradient.sums, layout, &Sum::layout);
  return {sum.value, std::exchange(sum.written, true)};
}

void Lowering::contribute(OpId op, size_t input, ValueId value) {
  const TensorId id = graph_.op(op).inputs[input];
  if (!differentiable(id)) {
    return;
  }
  if (role(id) == Tensor::Role::parameter) {
    const auto [sum, accumulate] = target_of(op, input);
    if (!accumulate && program_.value(value).dtype != DType::f32) {
      converted(value, DType::f32, gradient_name(id), sum);
      return;
    }
    value = converted(value, DType::f32, gradient_name(id));
    if (accumulate) {
      emit(Opcode::add, gradient_name(id) + ".add", {sum, value}, {sum});
    } else {
      emit(Opcode::slice, gradient_name(id), {value}, {sum});
    }
    return;
  }
  value = converted(value, gradient_dtype(id), gradient_name(id));
  const Layout layout = gradient_layout(ways(op), input);
  std::vector<Sum>& sums = lane().gradient[index(id)];
  const auto sum = std::ranges::find(sums, layout, &Sum::layout);
  if (sum == sums.end()) {
    sums.push_back({layout, value});
  } else {
    --holders_[sum->value];
    sum->value = value = add(sum->value, value, gradient_name(id));
  }
  ++holders_[value];
}

void Lowering::complete_gradients(OpId op) {
  for (const TensorId id : completed_by(op)) {
    GradientGroup& group = groups_[gradients_.at(id).group];
    group.complete.push_back(id);
    group.complete_bytes += gradient_bytes_of(id);
  }
  if (!strategy_.defer_gradients) {
    close_buckets(options_.bucket_bytes);
  }
}

void Lowering::cut_behind_bucket(OpId op, int64_t& bytes) {
  for (const TensorId id : completed_by(op)) {
    const GradientGroup& group = groups_[gradients_.at(id).group];
    bytes += reshards_locally(group.sums[0], group.total) ? 0 : gradient_bytes_of(id);
  }
  if (bytes >= options_.bucket_bytes) {
    lane().cuts.push_back(lane().instructions.size());
    bytes = 0;
  }
}

void Lowering::close_buckets(int64_t least) {
  for (GradientGroup& group : groups_) {
    if (!group.complete.empty() && group.complete_bytes >= least) {
      close_bucket(group);
    }
  }
}

void Lowering::close_bucket(GradientGroup& group) {
  const std::vector<TensorId> bucket = std::exchange(group.complete, {});
  group.complete_bytes = 0;
  const std::string name = fmt::format("gradients.{}", buckets_++);
  const bool common = std::exchange(common_, true);
  Operands totals;
  for (const TensorId id : bucket) {
    totals.push_back(gradients_.at(id).total);
  }
  for (size_t s = 0; s < group.sums.size(); ++s) {
    Operands sums;
    for (const TensorId id : bucket) {
      sums.push_back(gradients_.at(id).sums[s].value);
    }
    if (s == 0 && group.sums[0] != group.total) {
      reshard_all(sums, group.total, name, true, sums == totals ? Operands{} : totals);
      continue;
    }
    const Operands parts = reshard_all(sums, group.total, name, true);
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p] == totals[p]) {
        continue;
      }
      if (s == 0) {
        emit(Opcode::slice, name, {parts[p]}, {totals[p]});
      } else {
        emit(Opcode::add, name, {totals[p], parts[p]}, {totals[p]});
      }
    }
  }
  common_ = common;
  group.buckets.push_back(bucket);
}

}  // namespace hidup
