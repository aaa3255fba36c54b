#include "program/builder.h"

#include <utility>

namespace hidup {

ProgramBuilder::ProgramBuilder(std::string name, const Mesh& mesh, RouteChooser choose,
                               std::optional<size_t> pipeline)
    : choose_route_(std::move(choose)), pipeline_(pipeline) {
  program_.name = std::move(name);
  program_.mesh = with_equal_shares(mesh);
}

void ProgramBuilder::reserve(size_t values, size_t instructions, size_t microbatches) {
  program_.values.reserve(values * microbatches);
  program_.instructions.reserve(instructions * microbatches);
}

ValueId ProgramBuilder::add(Value value) {
  program_.values.push_back(std::move(value));
  return static_cast<ValueId>(program_.values.size()) - 1;
}

ValueId ProgramBuilder::add(Value value, const Tensor& of, int microbatch) {
  const auto whole = whole_counts_.find({of.counts, microbatch});
  if (value.packed && whole != whole_counts_.end()) {
    value.packed->counts = whole->second;
  }
  return add(std::move(value));
}

Instruction& ProgramBuilder::emit(const Scope& scope, Opcode opcode, const std::string& name,
                                  ValueIds inputs, ValueIds outputs) {
  Instruction instruction{
      .opcode = opcode,
      .name = name,
      .stream = collective_of(opcode).empty() ? StreamKind::compute : StreamKind::comm,
      .phase = scope.phase,
      .microbatch = scope.common ? -1 : scope.microbatch,
      .op = scope.op,
      .input = scope.input,
      .bucket = scope.bucket,
      .inputs = std::move(inputs),
      .outputs = std::move(outputs),
      .attributes = spec_of(opcode).attributes};
  std::vector<Instruction>& list = list_of(scope).instructions;
  list.push_back(std::move(instruction));
  return list.back();
}

void ProgramBuilder::append(const Scope& scope, Instruction instruction) {
  list_of(scope).instructions.push_back(std::move(instruction));
}

ValueId ProgramBuilder::convert(const Scope& scope, ValueId value, DType dtype,
                                const std::string& name, ValueId into) {
  if (program_.value(value).dtype == dtype) {
    return value;
  }
  if (into < 0) {
    Value result = program_.value(value);
    result.name = name;
    result.dtype = dtype;
    result.role = Value::Role::activation;
    into = add(std::move(result));
  }
  emit(scope, Opcode::convert, name + ".convert", {value}, {into});
  return into;
}

void ProgramBuilder::cut(const Scope& scope) {
  List& list = list_of(scope);
  list.cuts.push_back(list.instructions.size());
}

}  // namespace hidup
