#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/check.h"
#include "core/deadline.h"
#include "graph/operation.h"
#include "program/class_stats.h"
#include "program/lowering.h"
#include "sharding/reshard.h"

namespace hidup {
namespace {

class ForwardPass {
 public:
  ForwardPass(const LoweringInput& input, Parameters& parameters, ForwardState& state,
              ProgramBuilder& builder)
      : input_(input),
        graph_(input.graph),
        parameters_(parameters),
        state_(state),
        builder_(builder) {}

  void run(const TaskLists& lists) {
    const int count = input_.strategy.microbatches;
    for (int i = 0; i < count; ++i) {
      const int m = lists.task.microbatch * count + i;
      values_ = &state_.values[m];
      values_->copies.resize(graph_.tensors().size());
      values_->operands.resize(graph_.ops().size());
      values_->saved.resize(graph_.ops().size());
      for (const OpId op : input_.ops_of(lists.task.chunk)) {
        TimeLimit::check();
        const Scope scope{
            .phase = Phase::forward, .list = lists.first_list + i, .microbatch = m, .op = op};
        if (parameters_.starts_bucket(op)) {  // all compute while the next bucket arrives
          builder_.cut(scope);
          parameters_.start_buckets(scope);
        }
        operation(scope);
      }
    }
  }

 private:
  // Returns the values of a tensor. All microbatches share those of parameters.
  ValueIds& copies(TensorId id) {
    return input_.is_parameter(id) ? parameters_.copies(id)
                                   : values_->copies[static_cast<size_t>(id)];
  }

  void operation(const Scope& scope) {
    const Op& op = graph_.op(scope.op);
    const auto index = static_cast<size_t>(scope.op);
    ValueIds inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      inputs.push_back(operand(scope.for_input(i)));
    }
    values_->operands[index] = inputs;
    ValueIds outputs = {output(scope, inputs)};
    const ValueIds saved = saved_values(scope);
    values_->saved[index] = saved;
    outputs.insert(outputs.end(), saved.begin(), saved.end());

    if (op.kind == OpKind::cross_entropy) {
      cross_entropy(scope, inputs, outputs);
      return;
    }
    const OpcodeSpec& spec = forward_of(op.kind);
    Instruction& instruction =
        builder_.emit(scope, spec.opcode, graph_.op_name(scope.op), inputs, outputs);
    instruction.attributes = attributes_of(spec.opcode, op);
    if (spec.random) {
      instruction.purpose = input_.random_purpose(scope.op);
    }
    const bool counts = op.kind == OpKind::expert_counts || op.kind == OpKind::round_counts;
    if (counts && input_.exchanges_rows(op.output)) {
      tell_counts(scope, outputs[0]);
    }
    if (is_route(op)) {
      expert_load(scope, outputs[0]);
      if (input_.trains && has_backward(op)) {
        values_->saved[index] = {router_sums(scope, inputs[0], outputs[0])};
      }
    }
  }

  // Brings the counts of all experts and sequences to every rank that may have some of the rows.
  void tell_counts(const Scope& scope, ValueId counts) {
    Layout whole = builder_.replicated();
    if (const auto& schedule = input_.strategy.schedule) {
      const Axis& axis = builder_.mesh()[schedule->axis];
      const ShareNumber stage = builder_.value(counts).layout[schedule->axis].share;
      if (input_.keeps_rows_at(graph_.op(scope.op).output, schedule->axis, stage)) {
        whole[schedule->axis] = Placement::replicate(support_of(axis, stage));
      }
    }
    const std::string name = graph_.op_name(scope.op) + ".whole";
    const ValueId told = builder_.reshard(scope, counts, whole, name, false);
    builder_.value(told).role = Value::Role::counts;
    builder_.tell_counts(graph_.op(scope.op).output, scope.microbatch, told);
    if (told != counts) {
      copies(graph_.op(scope.op).output).push_back(told);  // ranks cut their parts out of it
    }
  }

  ValueIds saved_values(const Scope& scope) {
    const Op& op = graph_.op(scope.op);
    ValueIds saved;
    const Tensor& first = graph_.tensor(op.inputs[0]);
    for (const std::string_view name : spec_of(op.kind).saved) {
      Value value{.name = fmt::format("{}.{}", graph_.op_name(scope.op), name),
                  .shape = saved_shape(op.kind, first.shape),
                  .layout = saved_layout(input_.rules(scope.op))};
      input_.split(value, first.batch_dim(), scope.microbatch);
      saved.push_back(builder_.add(std::move(value)));
    }
    return saved;
  }

  // Adds an input of the step. Every rank gets only its part.
  ValueId step_input(const Scope& scope, TensorId id, const Layout& layout) {
    Value value = input_.value_of(id, graph_.tensor(id).name, layout, scope.microbatch);
    value.role = Value::Role::input;
    const ValueId added = builder_.add(std::move(value));
    Program& program = builder_.program();
    const std::string& name = graph_.tensor(id).name;
    (name == "tokens"             ? program.tokens
     : name == "images"           ? program.images
     : name.starts_with(kChoices) ? program.choices
                                  : program.targets)
        .push_back(added);
    return added;
  }

  // Returns the tensor's value in that layout, else the first value that contains the layout's part
  // on every rank; -1: none. Later microbatches also find copies of parameters that the first one
  // made later, so only the first match is the value that the first microbatch used.
  ValueId copy_in(TensorId id, const Layout& layout) {
    ValueId covering = -1;
    for (const ValueId copy : copies(id)) {
      if (builder_.value(copy).layout == layout) {
        return copy;
      }
      if (covering < 0 && covers(builder_.value(copy).layout, layout, builder_.mesh())) {
        covering = copy;
      }
    }
    return covering;
  }

  // Returns the value of the operand scope.input in the layout that the rule wants.
  ValueId operand(const Scope& scope) {
    const auto i = static_cast<size_t>(scope.input);
    const TensorId id = graph_.op(scope.op).inputs[i];
    const Layout wanted = input_layout(input_.rules(scope.op), i);
    if (const ValueId copy = copy_in(id, wanted); copy >= 0) {
      return copy;
    }
    if (parameters_.gather(scope, id, wanted)) {
      return copy_in(id, wanted);
    }
    ValueIds& held = copies(id);
    if (input_.role(id) == Tensor::Role::input) {
      held.push_back(step_input(scope, id, wanted));
      return held.back();
    }
    const auto nearby = std::ranges::find_if(held, [&](ValueId v) {
      return reshards_locally(builder_.value(v).layout, wanted, builder_.mesh());
    });
    const ValueId from = nearby == held.end() ? held[0] : *nearby;
    const bool parameter = input_.is_parameter(id);
    Scope of_tensor = scope;
    if (!parameter) {  // the activation's producer owns its reshards
      of_tensor.op = graph_.tensor(id).producer;
      of_tensor.input = -1;
    }
    of_tensor.common = parameter;
    const bool overwrite = !parameter && input_.wanted[static_cast<size_t>(id)].size() == 1 &&
                           !input_.needed_by_producer(id);
    const ValueId value =
        builder_.reshard(of_tensor, from, wanted, graph_.tensor(id).name, overwrite);
    if (value != from) {
      held.push_back(value);
    }
    return value;
  }

  // Returns true where the operation may overwrite the input: an activation with no other reader.
  bool overwrites(const Op& op, int input) const {
    if (input < 0) {
      return false;
    }
    const TensorId id = op.inputs[static_cast<size_t>(input)];
    return input_.role(id) == Tensor::Role::activation && input_.consumers_of(id) == 1 &&
           !input_.needs_input(op, static_cast<size_t>(input)) && !input_.needed_by_producer(id);
  }

  ValueId output(const Scope& scope, const ValueIds& inputs) {
    const Op& op = graph_.op(scope.op);
    const Layout layout = output_layout(input_.rules(scope.op));
    ValueIds& held = copies(op.output);
    const int over = overwritten_input(op.kind);
    if (overwrites(op, over) &&
        builder_.value(inputs[static_cast<size_t>(over)]).layout == layout) {
      held = {inputs[static_cast<size_t>(over)]};
    } else if (op.output == graph_.loss() && builder_.program().loss >= 0 &&
               is_everywhere(layout)) {
      held = {builder_.program().loss};  // the loss sums up over the microbatches
    } else {
      held = {builder_.add(
          input_.value_of(op.output, graph_.op_name(scope.op), layout, scope.microbatch),
          graph_.tensor(op.output), scope.microbatch)};
    }
    return held[0];
  }

  // Where the classes are cut, ranks exchange three numbers per target: the log-sum-exp of their
  // classes, the largest logit of their classes, and the target's logit on the rank that has it.
  void cross_entropy(const Scope& scope, const ValueIds& inputs, const ValueIds& outputs) {
    const std::string& name = graph_.op_name(scope.op);
    builder_.value(outputs[0]).shape = {2};
    const bool sums_up = is_everywhere(builder_.value(outputs[0]).layout);
    const bool is_first = builder_.program().loss < 0;
    if (sums_up) {
      builder_.program().loss = outputs[0];
      builder_.value(outputs[0]).role = Value::Role::result;
    }
    const ClassStats layouts =
        class_stats(graph_, scope.op, input_.rules(scope.op), builder_.mesh());
    ValueIds read = inputs;
    Opcode opcode = Opcode::cross_entropy;
    if (layouts.parts > 1) {
      const Value lse = builder_.value(outputs[1]);
      Value stats{
          .name = name + ".stats", .shape = lse.shape, .layout = layouts.made, .batch = lse.batch};
      stats.batch.dim += stats.batch.dim < 0 ? 0 : 1;
      stats.shape.insert(stats.shape.begin(), layouts.parts);
      stats.shape.push_back(kClassStats);
      const ValueId mine = builder_.add(std::move(stats));
      builder_.emit(scope, Opcode::cross_entropy_stats, name + ".stats", inputs, {mine});
      read[0] = builder_.reshard(scope, mine, layouts.needed, name + ".stats", true);
      opcode = Opcode::cross_entropy_merge;
    }
    Instruction& instruction = builder_.emit(scope, opcode, name, read, outputs);
    instruction.attributes = input_.loss_attributes(graph_.op(scope.op));
    instruction.accumulate = !is_first && sums_up;
    if (!sums_up) {
      builder_.program().loss = add_to_first(scope, name, outputs[0], state_.losses);
    }
  }

  // Returns true where every rank has a part of values with the layout.
  static bool is_everywhere(const Layout& layout) {
    return std::ranges::all_of(layout, &ShareNumber::is_equal, &Placement::share);
  }

  // Counts the tokens of each expert, for people.
  void expert_load(const Scope& scope, ValueId routing) {
    const std::string name = graph_.op_name(scope.op) + ".load";
    const ValueId load = value_per_expert(scope, name, 2, routing);
    builder_.emit(scope, Opcode::expert_load, name, {routing}, {load}).attributes =
        ExpertLoadAttributes{graph_.op(scope.op).as<RouteAttributes>().capacity};
    const bool is_first = !state_.loads.contains(scope.op);
    const ValueId first = add_to_first(scope, name, load, state_.loads);
    if (is_first) {
      builder_.program().expert_loads.push_back(first);
    }
  }

  // Computes the sums for a router's own losses; returns the total over the microbatches.
  ValueId router_sums(const Scope& scope, ValueId logits, ValueId routing) {
    const Op& op = graph_.op(scope.op);
    const RouterLossAttributes losses = input_.router_loss_attributes(op);
    const std::string name = graph_.op_name(scope.op) + ".sums";
    const ValueId sums = value_per_expert(scope, name, 3, routing);
    builder_.emit(scope, Opcode::router_sums, name, {logits, routing}, {sums}).attributes =
        RouterSumsAttributes{op.as<RouteAttributes>().capacity, losses.counted};
    const bool is_first = !state_.routers.contains(scope.op);
    const ValueId first = add_to_first(scope, name, sums, state_.routers);
    if (is_first) {
      builder_.program().router_sums.push_back({first, losses});
    }
    return first;
  }

  // Adds an f32 value [rows, experts] for sums over the tokens of a routing.
  ValueId value_per_expert(const Scope& scope, const std::string& name, int64_t rows,
                           ValueId routing) {
    const int64_t experts = graph_.tensor(graph_.op(scope.op).inputs[0]).shape.back();
    const Layout layout = summed_parts(builder_.value(routing).layout, builder_.mesh());
    return builder_.add({.name = name, .shape = {rows, experts}, .layout = layout});
  }

  // Adds the value to that of the operation's first microbatch, a result, and returns the latter.
  // Every rank has a summand, which is zero where the rank skipped the operation.
  ValueId add_to_first(const Scope& scope, const std::string& name, ValueId value,
                       std::map<OpId, ValueId>& firsts) {
    Layout everywhere = builder_.value(value).layout;
    for (Placement& placement : everywhere) {
      placement = placement.share.is_equal() ? placement : Placement::partial();
    }
    value = builder_.reshard(scope, value, everywhere, name, false);
    const auto [first, added] = firsts.try_emplace(scope.op, value);
    if (added) {
      builder_.value(value).role = Value::Role::result;
    } else {
      builder_.emit(scope, Opcode::add, name + ".add", {first->second, value}, {first->second});
    }
    return first->second;
  }

  const LoweringInput& input_;
  const Graph& graph_;
  Parameters& parameters_;
  ForwardState& state_;
  ProgramBuilder& builder_;
  ForwardValues* values_ = nullptr;  // of the microbatch
};

}  // namespace

void write_forward(const LoweringInput& input, const TaskLists& lists, Parameters& parameters,
                   ForwardState& state, ProgramBuilder& builder) {
  ForwardPass(input, parameters, state, builder).run(lists);
}

void reduce_results(const LoweringInput& input, ProgramBuilder& builder) {
  const Scope scope{.phase = Phase::forward,
                    .common = true,
                    .op = input.graph.tensor(input.graph.loss()).producer};
  ValueIds results = builder.program().expert_loads;
  for (const RouterSums& sums : builder.program().router_sums) {
    results.push_back(sums.value);
  }
  std::ranges::sort(results);  // in arena order, before the loss
  results.push_back(builder.program().loss);
  const Layout layout = builder.value(results.back()).layout;
  if (std::ranges::all_of(results, [&](ValueId v) { return builder.value(v).layout == layout; })) {
    builder.reshard(scope, results, builder.replicated(), "loss", true);
    return;
  }
  for (const ValueId result : results) {
    builder.reshard(scope, result, builder.replicated(), builder.value(result).name, true);
  }
}

void keep_logits(const LoweringInput& input, const ForwardValues& values, ProgramBuilder& builder) {
  const OpId loss = input.graph.tensor(input.graph.loss()).producer;
  const Scope scope{.phase = Phase::forward, .op = loss, .input = 0};
  const std::string name = input.graph.tensor(input.graph.op(loss).inputs[0]).name + ".kept";
  const ValueId read = values.operands[static_cast<size_t>(loss)][0];
  const ValueId whole = builder.reshard(scope, read, builder.replicated(), name, false);
  // Results lie in the arena in the order of their numbers. The logits get a copy at the end, so
  // that the results that reduce_results() sums stay contiguous.
  Value value = builder.value(whole);
  value.name = name;
  value.role = Value::Role::result;
  value.dtype = DType::f32;
  const ValueId kept = builder.add(std::move(value));
  const bool wide = builder.value(whole).dtype == DType::f32;
  builder.emit(scope, wide ? Opcode::slice : Opcode::convert, name, {whole}, {kept});
  builder.program().logits = kept;
}

}  // namespace hidup
