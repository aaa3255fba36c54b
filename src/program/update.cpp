#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/lowering.h"

namespace hidup {

void Lowering::update() {
  phase_ = Phase::update;
  common_ = true;
  const ValueId squared = squared_norm();
  program_.gradient_norm = add_scalar("gradient_norm", Value::Role::result, replicated());
  const ValueId scale = add_scalar("gradient_scale", Value::Role::activation, replicated());
  emit(Opcode::clip_scale, "gradient_norm", {squared}, {program_.gradient_norm, scale})
      .attributes["max_norm"] = options_.clip_norm;
  for (const GradientGroup& group : groups_) {
    for (const std::vector<TensorId>& bucket : group.buckets) {
      update_bucket(group, bucket, scale);
    }
  }
}

// Over all parameters: of a sharded gradient every rank has a part of the squares, of a
// replicated one all of them.
ValueId Lowering::squared_norm() {
  std::vector<std::pair<Layout, ValueId>> sums;
  for (const GradientGroup& group : groups_) {
    Layout layout = group.total;
    for (Placement& placement : layout) {
      placement = placement.is_shard() ? Placement::partial() : Placement::replicate();
    }
    auto sum = std::ranges::find(sums, layout, &std::pair<Layout, ValueId>::first);
    const bool accumulate = sum != sums.end();
    if (!accumulate) {
      sum = sums.insert(sums.end(), {layout, add_scalar("gradient_norm.squared",
                                                        Value::Role::activation, layout)});
    }
    Operands totals;
    for (const TensorId member : group.members) {
      totals.push_back(gradients_.at(member).total);
    }
    emit(Opcode::squared_norm, "gradient_norm.squared", totals, {sum->second}).accumulate =
        accumulate;
  }
  ValueId squared = -1;
  for (const auto& [layout, sum] : sums) {
    const ValueId whole = reshard(sum, replicated(), "gradient_norm", true);
    squared = squared < 0 ? whole : add(squared, whole, "gradient_norm");
  }
  return squared;
}

// In the layout of the optimizer's state; where parameters are stored in another one, on a
// copy that goes back. Parameters of 16 bits are rounded from their masters, which lie there.
void Lowering::update_bucket(const GradientGroup& group, const std::vector<TensorId>& bucket,
                             ValueId scale) {
  const std::string name = fmt::format("parameters.{}", buckets_++);
  Operands stored;
  for (const TensorId parameter : bucket) {
    stored.push_back(copies(parameter)[0]);
  }
  const bool rounds = masters_.contains(bucket[0]);
  Operands parts;
  if (rounds) {
    for (const TensorId parameter : bucket) {
      parts.push_back(masters_.at(parameter));
    }
  } else {
    parts = reshard_all(stored, group.total, name, false);
  }
  Operands inputs;
  Operands outputs;
  for (size_t p = 0; p < bucket.size(); ++p) {
    const Operands& moments = moments_.at(bucket[p]);
    inputs.insert(inputs.end(), {parts[p], gradients_.at(bucket[p]).total, moments[0], moments[1]});
    outputs.insert(outputs.end(), {parts[p], moments[0], moments[1]});
  }
  inputs.push_back(scale);
  Attributes attributes = options_.optimizer;
  if (graph_.tensor(bucket[0]).dtype == DType::f16) {
    attributes["skips"] = 1.0;  // the scaled loss may have been too large
  }
  emit(Opcode::adam, name + ".update", inputs, outputs).attributes = std::move(attributes);
  if (rounds) {
    parts = round_masters(group, bucket, name);
  }
  reshard_all(parts, group.storage, name, false, stored);
}

// Where the optimizer's state has the layout of the storage, that is all.
Lowering::Operands Lowering::round_masters(const GradientGroup& group,
                                           const std::vector<TensorId>& bucket,
                                           const std::string& name) {
  Operands masters;
  Operands rounded;
  for (const TensorId parameter : bucket) {
    masters.push_back(masters_.at(parameter));
    const ValueId stored = copies(parameter)[0];
    if (group.total == group.storage) {
      rounded.push_back(stored);
      continue;
    }
    Value part = program_.value(stored);
    part.name += ".part";
    part.role = Value::Role::activation;
    part.layout = group.total;
    rounded.push_back(add_value(std::move(part)));
  }
  emit(Opcode::convert, name + ".convert", masters, rounded);
  return rounded;
}

}  // namespace hidup
