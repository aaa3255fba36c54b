#include <fmt/format.h>

#include <algorithm>

#include "program/lowering.h"
#include "sharding/reshard.h"

namespace hidup {

Parameters::Parameters(const LoweringInput& input, ProgramBuilder& builder)
    : input_(input),
      builder_(builder),
      copies_(input.graph.tensors().size()),
      starts_(input.graph.ops().size()) {
  for (TensorId id = 0; id < static_cast<TensorId>(input.graph.tensors().size()); ++id) {
    if (input.is_parameter(id)) {
      add_values(id);
    }
  }
  for (OpId op = 0; op < input.op_count(); ++op) {
    const std::vector<TensorId>& inputs = input.graph.op(op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (input.is_parameter(inputs[i])) {
        plan_bucket(op, inputs[i], input_layout(input.rules(op), i));
      }
    }
  }
}

void Parameters::add_values(TensorId id) {
  const Tensor& tensor = input_.graph.tensor(id);
  Value value{.name = tensor.name,
              .role = Value::Role::parameter,
              .dtype = tensor.dtype,
              .shape = tensor.shape,
              .layout = input_.stored(id).storage,
              .init = tensor.init,
              .decay = tensor.decay};
  copies(id) = {builder_.add(value)};
  if (!input_.trains) {
    return;
  }
  value.role = Value::Role::optimizer_state;
  value.dtype = DType::f32;
  value.layout = input_.stored(id).optimizer_state;
  if (tensor.dtype != DType::f32) {
    value.name = tensor.name + ".master";
    value.master_of = stored(id);
    masters_[id] = builder_.add(value);
    value.master_of = -1;
  }
  value.name = tensor.name + ".m";
  const ValueId m = builder_.add(value);
  value.name = tensor.name + ".v";
  moments_[id] = {m, builder_.add(value)};
}

void Parameters::plan_bucket(OpId op, TensorId id, const Layout& wanted) {
  const Layout& storage = input_.stored(id).storage;
  if (reshards_locally(storage, wanted, builder_.mesh()) ||
      bucket_of_.contains({id, to_string(wanted)})) {
    return;
  }
  const auto open = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& bucket) {
    return bucket.storage == storage && bucket.wanted == wanted;
  });
  size_t at = static_cast<size_t>(buckets_.rend() - open) - 1;
  if (open == buckets_.rend() || open->bytes >= input_.options.bucket_bytes) {
    at = buckets_.size();
    buckets_.push_back({storage, wanted, {}});
    starts_[static_cast<size_t>(op)] = true;
  }
  const Tensor& tensor = input_.graph.tensor(id);
  buckets_[at].parameters.push_back(id);
  buckets_[at].bytes += elements(tensor.shape) * size_of(tensor.dtype);
  bucket_of_[{id, to_string(wanted)}] = at;
}

ValueId Parameters::master(TensorId id) const {
  const auto found = masters_.find(id);
  return found == masters_.end() ? -1 : found->second;
}

bool Parameters::gather(const Scope& scope, TensorId id, const Layout& wanted) {
  const auto found = bucket_of_.find({id, to_string(wanted)});
  if (found == bucket_of_.end()) {
    return false;
  }
  const Bucket& bucket = buckets_[found->second];
  ValueIds stored_values;
  for (const TensorId member : bucket.parameters) {
    stored_values.push_back(stored(member));
  }
  const std::string name = bucket.parameters.size() == 1
                               ? input_.graph.tensor(bucket.parameters[0]).name
                               : fmt::format("parameters.{}", found->second);
  const Scope of_bucket{.phase = scope.phase,
                        .microbatch = scope.microbatch,
                        .common = true,
                        .bucket = static_cast<int>(found->second)};
  const ValueIds gathered = builder_.reshard(of_bucket, stored_values, wanted, name, false);
  for (size_t i = 0; i < gathered.size(); ++i) {
    copies(bucket.parameters[i]).push_back(gathered[i]);
  }
  return true;
}

}  // namespace hidup
