#include "program/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "program/rounds.h"

namespace hidup {
namespace {

// Replicates on axes of one rank, where placements are equal and replicate never communicates.
Strategy without_lone_ranks(const Graph& graph, Strategy strategy) {
  for (size_t axis = 0; axis < strategy.mesh.size(); ++axis) {
    if (strategy.mesh[axis].size > 1) {
      continue;
    }
    for (size_t op = 0; op < strategy.ops.size(); ++op) {
      strategy.ops[op].rules[axis] = replicate_rule(graph, static_cast<OpId>(op));
    }
    for (ParameterStrategy& parameter : strategy.parameters) {
      parameter.storage[axis] = parameter.optimizer_state[axis] = Placement::replicate();
    }
  }
  return strategy;
}

}  // namespace

LoweringInput::LoweringInput(const Graph& model, const Strategy& chosen, const LoweringOptions& how,
                             bool training)
    : graph(model),
      strategy(without_lone_ranks(model, chosen)),
      options(how),
      trains(training),
      stages(stages_of(model, chosen)),
      chunks(stages.pipeline.device_of.size()),
      consumers(model.tensors().size()),
      wanted(model.tensors().size()),
      storage(model.tensors().size()) {
  for (const ParameterStrategy& parameter : strategy.parameters) {
    storage[static_cast<size_t>(parameter.tensor)] = &parameter;
  }
  for (OpId op = 0; op < op_count(); ++op) {
    chunks[static_cast<size_t>(chunk_of(op))].push_back(op);
    const std::vector<TensorId>& inputs = graph.op(op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto id = static_cast<size_t>(inputs[i]);
      ++consumers[id];
      const Layout layout = input_layout(rules(op), i);
      if (std::ranges::find(wanted[id], layout) == wanted[id].end()) {
        wanted[id].push_back(layout);
      }
    }
  }
}

bool LoweringInput::needed_by_producer(TensorId activation) const {
  return trains && backward_needs_output(graph.op(graph.tensor(activation).producer).kind);
}

bool LoweringInput::needs_input(const Op& op, size_t i) const {
  return trains && backward_needs_input(op.kind, i);
}

void LoweringInput::split(Value& value, int dim, int microbatch) const {
  if (microbatches() == 1) {
    return;
  }
  auto& extent = value.shape[static_cast<size_t>(dim)];
  const auto offsets = balanced_offsets(extent, microbatches());
  const auto part = static_cast<size_t>(microbatch);
  value.batch = {dim, offsets[part], extent};
  extent = offsets[part + 1] - offsets[part];
}

Value LoweringInput::value_of(TensorId id, std::string name, const Layout& layout,
                              int microbatch) const {
  const Tensor& tensor = graph.tensor(id);
  Value value{
      .name = std::move(name), .dtype = tensor.dtype, .shape = tensor.shape, .layout = layout};
  value.packed = packed_rows_of(graph, id);
  if (!is_parameter(id) && !tensor.shape.empty()) {
    split(value, tensor.batch_dim(), microbatch);
  }
  return value;
}

std::set<Layout> LoweringInput::layouts_of_rows(TensorId counts) const {
  std::set<Layout> layouts;
  const auto add = [&](TensorId id, const Layout& layout) {
    const TensorId of = graph.tensor(id).counts;
    if (of >= 0 && all_counts(graph, of) == all_counts(graph, counts)) {
      layouts.insert(gradient_of(layout));
    }
  };
  for (OpId id = 0; id < op_count(); ++id) {
    const Op& op = graph.op(id);
    add(op.output, output_layout(rules(id)));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      add(op.inputs[i], input_layout(rules(id), i));
    }
  }
  return layouts;
}

bool LoweringInput::keeps_rows_at(TensorId counts, size_t axis, ShareNumber share) const {
  return std::ranges::all_of(layouts_of_rows(counts), [&](const Layout& layout) {
    return support_of(strategy.mesh[axis], layout[axis].share) ==
           support_of(strategy.mesh[axis], share);
  });
}

bool LoweringInput::exchanges_rows(TensorId counts) const {
  const bool has_rounds = std::ranges::any_of(graph.ops(), [&](const Op& op) {
    return std::holds_alternative<RoundAttributes>(op.attributes) &&
           all_counts(graph, op.output) == all_counts(graph, counts);
  });
  if (has_rounds) {
    return true;
  }
  const std::set<Layout> layouts = layouts_of_rows(counts);
  const bool draws = std::ranges::any_of(graph.ops(), [&](const Op& op) {
    return graph.tensor(op.output).counts == counts && forward_of(op.kind).random;
  });
  const auto cuts_experts = [](const Layout& layout) {
    return std::ranges::any_of(layout,
                               [](const Placement& at) { return at.is_shard() && at.dim == 0; });
  };
  return draws || layouts.size() > 1 || std::ranges::any_of(layouts, cuts_experts);
}

LossAttributes LoweringInput::loss_attributes(const Op& op) const {
  return {.scale = 1.0 / static_cast<double>(elements(graph.tensor(op.inputs[1]).shape))};
}

RouterLossAttributes LoweringInput::router_loss_attributes(const Op& op) const {
  const auto& route = op.as<RouteAttributes>();
  const Shape& logits = graph.tensor(op.inputs[0]).shape;
  const auto experts = static_cast<double>(logits[2]);
  return {.balance = route.balance_loss,
          .counted = route.gshard ? 1 : route.choices,
          .factor = route.gshard ? 1.0 / experts : experts,
          .tokens = logits[0] * logits[1],
          .z = route.z_loss};
}

// All rounds of experts draw from one stream, so that the masks do not depend on the rounds.
std::string LoweringInput::random_purpose(OpId op) const {
  std::string name = graph.op_name(op);
  if (const TensorId counts = graph.tensor(graph.op(op).output).counts; counts >= 0) {
    const std::string suffix = suffix_of_round(round_of(graph, counts));
    name.resize(name.size() - (name.ends_with(suffix) ? suffix.size() : 0));
  }
  return fmt::format("{}/{}", forward_of(graph.op(op).kind).name, name);
}

}  // namespace hidup
