#include <fmt/format.h>

#include <utility>

#include "program/lowering.h"

namespace hidup {

void Lowering::close_bucket(int64_t least) {
  Operands values;
  int64_t bytes = 0;
  for (const TensorId parameter : bucket_) {
    values.push_back(gradients_.at(parameter).value);
    bytes += elements(graph_.tensor(parameter).shape) * size_of(DType::f32);
  }
  if (bucket_.empty() || bytes < least) {
    return;
  }
  if (!one_rank()) {
    microbatch_ = -1;
    emit(Opcode::all_reduce, fmt::format("gradients.{}.all_reduce", buckets_.size()), values,
         values);
  }
  buckets_.push_back(std::exchange(bucket_, {}));
}

void Lowering::update() {
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

ValueId Lowering::add_scalar(const std::string& name, Value::Role role) {
  const Layout replicated(program_.mesh.size(), Placement::replicate());
  return add_value({.name = name, .role = role, .shape = {}, .layout = replicated});
}

}  // namespace hidup
