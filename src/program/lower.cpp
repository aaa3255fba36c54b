#include "program/lower.h"

#include <optional>

#include "program/fuse.h"
#include "program/lowering.h"
#include "program/message_parts.h"
#include "program/padded_rows.h"
#include "program/recompute.h"
#include "program/work.h"

namespace hidup {

namespace {

// Returns a chooser that follows the strategy.
RouteChooser routes_of(const Strategy& strategy) {
  return [&routes = strategy.routes,
          mesh = with_equal_shares(strategy.mesh)](const RouteDemand& demand) {
    return chosen_route(routes, demand.value.layout, demand.to, demand.bytes, mesh);
  };
}

// Runs the passes over the complete list of instructions.
Program finish(ProgramBuilder& builder, const Strategy& strategy, const LoweringOptions& options) {
  Program program = builder.take();
  choose_algorithms(program, strategy.algorithms);
  if (options.fuse) {
    fuse_backward(program);
  }
  if (options.pad) {
    pad_rows(program);
  }
  insert_waits(program);
  mark_beside_messages(program);
  estimate_work(program);
  return program;
}

// A forward pass that ends the program: its first instruction and the values that it leaves.
struct WrittenPass {
  size_t first;
  std::vector<ForwardValues> values;
};
WrittenPass write_pass(const LoweringInput& input, int group, Parameters& parameters,
                       ForwardSums& sums, ProgramBuilder& builder) {
  Program& program = builder.program();
  const size_t first = program.instructions.size();
  WrittenPass pass{first, write_forward(input, group, parameters, sums, builder)};
  builder.weave();
  if (input.options.fuse) {
    fuse_epilogues(program, first);
    fuse_residual_norms(program, first);
  }
  return pass;
}

void write_step(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                ProgramBuilder& builder) {
  const LoweringInput input(graph, strategy, options, true);
  builder.reserve(4 * graph.tensors().size(), 4 * graph.ops().size());  // enough for most models
  Parameters parameters(input, builder);
  ForwardSums sums;
  std::optional<ParameterGradients> gradients;
  for (int group = 0; group < strategy.accumulate; ++group) {
    const WrittenPass forward = write_pass(input, group, parameters, sums, builder);
    Recomputation recomputation(input, parameters, forward.values, builder, forward.first);
    if (group + 1 == strategy.accumulate) {
      reduce_results(input, builder);
      builder.weave();
    }
    if (!gradients) {
      gradients.emplace(input, parameters, builder);
    }
    const size_t first = builder.program().instructions.size();
    write_backward(input, group, forward.values, recomputation, *gradients, builder);
    builder.weave();
    if (group + 1 == strategy.accumulate) {
      gradients->order_sums(first);
    }
    parameters.end_pass();
  }
  gradients->close({.phase = Phase::backward}, 0);
  write_update(input, parameters, *gradients, builder);
  builder.weave();
}

}  // namespace

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options) {
  return lower(graph, strategy, options, routes_of(strategy));
}

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
              const RouteChooser& choose) {
  ProgramBuilder builder(graph.name(), strategy.mesh, strategy.microbatches, choose);
  write_step(graph, strategy, options, builder);
  return finish(builder, strategy, options);
}

Program lower_forward(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                      const ForwardOptions& forward) {
  InferenceModel model = without_training(graph, strategy);
  if (forward.keep_logits) {
    model.strategy.microbatches = model.strategy.accumulate = 1;
  }
  const LoweringInput input(model.graph, model.strategy, options, false);
  ProgramBuilder builder(graph.name(), strategy.mesh, model.strategy.microbatches,
                         routes_of(strategy));

  Parameters parameters(input, builder);
  ForwardSums sums;
  std::vector<ForwardValues> values;
  for (int group = 0; group < model.strategy.accumulate; ++group) {
    values = write_pass(input, group, parameters, sums, builder).values;
    parameters.end_pass();
  }
  reduce_results(input, builder);
  if (forward.keep_logits) {
    keep_logits(input, values[0], builder);
  }
  builder.weave();

  Program program = finish(builder, model.strategy, options);
  for (Instruction& instruction : program.instructions) {
    instruction.op =
        instruction.op < 0 ? -1 : model.original_ops[static_cast<size_t>(instruction.op)];
  }
  return program;
}

}  // namespace hidup
