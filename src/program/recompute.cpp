#include "program/recompute.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/check.h"
#include "sharding/reshard.h"

namespace hidup {
namespace {

// Returns the last step of a fused instruction if it can be recomputed alone, from the second
// output, which holds the result of the earlier steps.
std::optional<Opcode> last_step(const Instruction& fused) {
  if (fused.opcode == Opcode::matmul_bias_gelu) {
    return Opcode::gelu;
  }
  const bool is_norm = std::holds_alternative<ResidualNormAttributes>(fused.attributes);
  return is_norm ? spec_of(fused.opcode).fuses : std::nullopt;
}

// Returns true where the strategy frees something before the end of the step.
bool frees_early(const LoweringInput& input) {
  bool frees = std::ranges::any_of(input.strategy.parameters, [](const ParameterStrategy& stored) {
    return stored.residency == Residency::pass;
  });
  for (OpId op = 0; op < input.op_count() && !frees; ++op) {
    frees = input.recomputes(op);
  }
  return frees;
}

}  // namespace

Recomputation::Recomputation(const LoweringInput& input, const Parameters& parameters,
                             const pipeline::Task& task, const ForwardState& forward,
                             ProgramBuilder& builder, size_t first)
    : input_(input),
      parameters_(parameters),
      builder_(builder),
      first_(first),
      is_needed_(frees_early(input)),
      gathered_(input, builder),
      started_(static_cast<size_t>(input.strategy.microbatches)) {
  if (!is_needed_) {
    return;
  }
  const size_t values = builder.program().values.size();
  gathered_of_.resize(values, {-1, {}});
  writers_.resize(values);
  now_.resize(values, -1);
  planned_.resize(builder.program().instructions.size() - first);
  written_.resize(started_.size(), planned_);
  std::vector<const ForwardValues*> values_of_task;
  values_of_task.reserve(started_.size());
  for (int i = 0; i < input.strategy.microbatches; ++i) {
    values_of_task.push_back(&forward.values.at(task.microbatch * input.strategy.microbatches + i));
  }
  find_what_stays(values_of_task);
  if (task.chunk + 1 == input.stages.pipeline.chunks()) {
    keep_last_parameters(values_of_task);
  }
  find_writers();
  keep_unrounded_gelus();
}

void Recomputation::find_what_stays(const std::vector<const ForwardValues*>& forward) {
  for (const Value& value : builder_.program().values) {
    kept_.push_back(value.persistent());
  }
  for (TensorId id = 0; id < static_cast<TensorId>(input_.graph.tensors().size()); ++id) {
    if (input_.is_parameter(id)) {
      keep_parameter(id, parameters_.copies(id));
    }
  }
  for (const ForwardValues* values : forward) {
    for (OpId op = 0; op < input_.op_count(); ++op) {
      if (!input_.recomputes(op)) {
        keep(values->copies[static_cast<size_t>(input_.graph.op(op).output)]);
        keep(values->saved[static_cast<size_t>(op)]);
      }
    }
  }
}

void Recomputation::keep(const ValueIds& values) {
  for (const ValueId value : values) {
    kept_[index(value)] = true;
  }
}

void Recomputation::keep_parameter(TensorId id, const ValueIds& copies) {
  if (input_.stored(id).residency == Residency::step) {
    keep(copies);
    return;
  }
  for (const ValueId copy : copies) {
    const Layout& layout = builder_.value(copy).layout;
    if (!kept_[index(copy)] &&
        !reshards_locally(input_.stored(id).storage, layout, builder_.mesh())) {
      gathered_of_[index(copy)] = {id, layout};
    }
  }
}

void Recomputation::keep_last_parameters(const std::vector<const ForwardValues*>& forward) {
  bool found = false;
  for (OpId id = input_.op_count() - 1; id >= 0 && !found; --id) {
    const Op& op = input_.graph.op(id);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      for (const ForwardValues* values : forward) {
        const ValueIds& operands = values->operands[static_cast<size_t>(id)];
        const ValueId read = i < operands.size() ? operands[i] : -1;  // -1: a later chunk's
        if (read >= 0 && is_gathered(read) && input_.needs_input(op, i)) {
          gathered_of_[index(read)].first = -1;
          kept_[index(read)] = true;
          found = true;
        }
      }
    }
  }
}

void Recomputation::keep_unrounded_gelus() {
  for (int place = 0; place < static_cast<int>(planned_.size()); ++place) {
    const ValueIds& outputs = forward(place).outputs;
    if (forward(place).opcode == Opcode::matmul_bias_gelu && kept_[index(outputs[1])] &&
        builder_.value(outputs[0]).dtype != DType::f32) {
      kept_[index(outputs[0])] = true;
    }
  }
}

void Recomputation::find_writers() {
  for (int place = 0; place < static_cast<int>(planned_.size()); ++place) {
    const Instruction& writer = forward(place);
    for (const ValueId output : writer.outputs) {
      // A value of another task that this one changes in place cannot be made again.
      const bool changes = writers_[index(output)].empty() &&
                           std::ranges::find(writer.inputs, output) != writer.inputs.end();
      if (changes || writer.stream == StreamKind::down) {
        kept_[index(output)] = true;
      }
      writers_[index(output)].push_back(place);
    }
  }
  for (size_t value = 0; value < writers_.size(); ++value) {
    kept_[value] = kept_[value] || writers_[value].empty();
  }
}

Instruction Recomputation::rest_of(const Instruction& instruction) const {
  const std::optional<Opcode> last = last_step(instruction);
  if (!last || !kept_[index(instruction.outputs[1])]) {
    return instruction;
  }
  Instruction rest = instruction;
  rest.opcode = *last;
  rest.inputs = {instruction.outputs[1]};
  rest.outputs.erase(rest.outputs.begin() + 1);
  rest.attributes = spec_of(*last).attributes;
  rest.purpose.clear();
  if (const auto* norm = std::get_if<ResidualNormAttributes>(&instruction.attributes)) {
    rest.attributes = LayerNormAttributes{.epsilon = norm->epsilon};
    rest.inputs.insert(rest.inputs.end(), instruction.inputs.begin() + 2, instruction.inputs.end());
  }
  return rest;
}

std::vector<int> Recomputation::missing(ValueId value, const std::vector<bool>& written) const {
  std::set<int> places;
  ValueIds open = {value};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (kept_[index(next)] || is_gathered(next)) {
      continue;
    }
    for (const int place : writers_[index(next)]) {
      if (!written[static_cast<size_t>(place)] && places.insert(place).second) {
        const Instruction rest = rest_of(forward(place));
        open.insert(open.end(), rest.inputs.begin(), rest.inputs.end());
      }
    }
  }
  return {places.begin(), places.end()};
}

void Recomputation::plan(OpId op, const ValueIds& values) {
  is_planned_ = true;
  const auto plan_gather = [&](ValueId value) {
    if (is_gathered(value)) {
      const auto& [id, wanted] = gathered_of_[index(value)];
      gathered_.plan(op, id, wanted);
    }
  };
  for (const ValueId value : values) {
    plan_gather(value);
    for (const int place : missing(value, planned_)) {
      planned_[static_cast<size_t>(place)] = true;
      std::ranges::for_each(rest_of(forward(place)).inputs, plan_gather);
    }
  }
}

void Recomputation::need(const Scope& scope, const ValueIds& values, ValueId since) {
  for (const ValueId value : values) {
    if (is_gathered(value)) {
      gather(scope, value);
    }
    for (const int place : missing(value, written_[list_of(scope)])) {
      write(scope, place, since);
    }
  }
}

void Recomputation::write(const Scope& scope, int place, ValueId since) {
  const auto is_there = [&](const std::vector<bool>& written) {
    return written[static_cast<size_t>(place)];
  };
  const bool of_all = forward(place).microbatch < 0 && std::ranges::any_of(written_, is_there);
  written_[list_of(scope)][static_cast<size_t>(place)] = true;
  Instruction repeated = rest_of(forward(place));
  for (const ValueId input : repeated.inputs) {
    if (is_gathered(input)) {
      gather(scope, input);
    }
  }
  if (of_all) {
    return;
  }
  const ValueIds read = repeated.inputs;
  for (ValueId& input : repeated.inputs) {
    input = now(input);
  }
  for (ValueId& output : repeated.outputs) {
    check(!kept_[index(output)] || std::ranges::find(read, output) == read.end(),
          "{} would be overwritten in the backward pass", builder_.value(output).name);
    output = recomputed_value(output);
  }
  repeated.name += ", recomputed";
  repeated.phase = Phase::backward;
  repeated.recomputed = true;
  if (repeated.stream == StreamKind::comm && since >= 0) {
    repeated.after_uses_of = {since};
  }
  builder_.append(scope, std::move(repeated));
}

// A recomputed value that stays in memory anyway goes to a new value that nobody reads.
ValueId Recomputation::recomputed_value(ValueId value) {
  ValueId& now = now_[index(value)];
  if (now >= 0 && !kept_[index(value)]) {
    return now;
  }
  Value copy = builder_.value(value);
  copy.role = Value::Role::activation;
  for (ValueId& held : copy.holds) {
    held = now_[index(held)] >= 0 ? now_[index(held)] : held;
  }
  const ValueId made = builder_.add(std::move(copy));
  if (!kept_[index(value)]) {
    now = made;
  }
  return made;
}

void Recomputation::gather(const Scope& scope, ValueId value) {
  const auto& [id, wanted] = gathered_of_[index(value)];
  const int bucket = gathered_.bucket_of(id, wanted);
  check(bucket >= 0, "{} is gathered for the backward pass without a plan",
        builder_.value(value).name);
  std::vector<bool>& started = started_[list_of(scope)];
  started.resize(std::max(started.size(), static_cast<size_t>(bucket) + 1));
  if (!started[static_cast<size_t>(bucket)]) {
    started[static_cast<size_t>(bucket)] = true;
    builder_.cut(scope);  // all microbatches compute while the next bucket arrives
    gathered_.gather(scope, bucket, parameters_.all());
  }
}

ValueId Recomputation::now(ValueId value) const {
  if (!is_needed_ || kept_[index(value)]) {
    return value;
  }
  if (is_gathered(value)) {
    const auto& [id, wanted] = gathered_of_[index(value)];
    return gathered_.value(id, wanted);
  }
  const ValueId now = now_[index(value)];
  check(now >= 0, "{} is read in the backward pass, and not there", builder_.value(value).name);
  return now;
}

}  // namespace hidup
