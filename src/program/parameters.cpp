#include "program/lowering.h"

namespace hidup {

Parameters::Parameters(const LoweringInput& input, ProgramBuilder& builder)
    : input_(input),
      builder_(builder),
      copies_(input.graph.tensors().size()),
      gathered_(input, builder),
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
        const int bucket = gathered_.plan(op, inputs[i], input_layout(input.rules(op), i));
        if (bucket >= 0) {
          starts_[static_cast<size_t>(op)].push_back(bucket);
        }
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
  if (!input_.trains || !tensor.learned) {
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

ValueId Parameters::master(TensorId id) const {
  const auto found = masters_.find(id);
  return found == masters_.end() ? -1 : found->second;
}

bool Parameters::gather(const Scope& scope, TensorId id, const Layout& wanted) {
  const int bucket = gathered_.bucket_of(id, wanted);
  if (bucket >= 0) {
    gather(scope, bucket);
  }
  return bucket >= 0;
}

void Parameters::gather(const Scope& scope, int bucket) {
  for (const auto& [id, value] : gathered_.gather(scope, bucket, copies_)) {
    copies(id).push_back(value);
  }
}

void Parameters::start_buckets(const Scope& scope) {
  for (const int bucket : starts_.at(static_cast<size_t>(scope.op))) {
    if (gathered_.is_kept_for_a_pass(bucket)) {
      gather(scope, bucket);
    }
  }
}

void Parameters::end_pass() {
  gathered_.end_pass();
  for (const ParameterStrategy& parameter : input_.strategy.parameters) {
    if (parameter.residency == Residency::pass) {
      copies(parameter.tensor).resize(1);
    }
  }
}

}  // namespace hidup
