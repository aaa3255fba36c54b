#include "program/lower.h"

#include <utility>

#include "program/lowering.h"
#include "program/work.h"

namespace hidup {

Lowering::Lowering(const Graph& graph, const Strategy& strategy, const LoweringOptions& options)
    : graph_(graph), strategy_(strategy), options_(options) {
  program_.name = graph.name();
  program_.mesh = strategy.mesh;
  value_of_.assign(graph.tensors().size(), -1);
  gradient_.assign(graph.tensors().size(), -1);
  consumers_.assign(graph.tensors().size(), 0);
  saved_.resize(graph.ops().size());
}

Program Lowering::run() {
  count_consumers();
  add_parameters();
  for (OpId op = 0; op < op_count(); ++op) {
    forward(op);
  }
  add_gradients();
  for (OpId op = op_count() - 1; op >= 0; --op) {
    backward(op);
    close_bucket(options_.bucket_bytes);
  }
  close_bucket(0);
  update();
  insert_waits(program_);
  estimate_work(program_);
  return std::move(program_);
}

void Lowering::count_consumers() {
  for (const Op& op : graph_.ops()) {
    for (const TensorId input : op.inputs) {
      ++consumers_[index(input)];
    }
  }
}

ValueId Lowering::add_value(Value value) {
  program_.values.push_back(std::move(value));
  return static_cast<ValueId>(program_.values.size()) - 1;
}

Instruction& Lowering::emit(Opcode opcode, const std::string& name, Operands inputs,
                            Operands outputs) {
  Instruction instruction{
      .opcode = opcode,
      .name = name,
      .stream = collective_of(opcode).empty() ? StreamKind::compute : StreamKind::comm,
      .phase = phase_,
      .microbatch = microbatch_,
      .inputs = std::move(inputs),
      .outputs = std::move(outputs)};
  program_.instructions.push_back(std::move(instruction));
  return program_.instructions.back();
}

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options) {
  return Lowering(graph, strategy, options).run();
}

}  // namespace hidup
