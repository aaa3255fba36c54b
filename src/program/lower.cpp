#include "program/lower.h"

#include "program/fuse.h"
#include "program/lowering.h"
#include "program/work.h"

namespace hidup {

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options) {
  const LoweringInput input(graph, strategy, options);
  ProgramBuilder builder(graph.name(), strategy.mesh, strategy.microbatches);
  builder.reserve(4 * graph.tensors().size(), 4 * graph.ops().size());  // about what is needed

  Parameters parameters(input, builder);
  const std::vector<ForwardValues> forward = write_forward(input, parameters, builder);
  builder.weave();
  reduce_results(input, builder);
  builder.weave();
  ParameterGradients gradients(input, parameters, builder);
  write_backward(input, forward, gradients, builder);
  builder.weave();
  gradients.close({.phase = Phase::backward}, 0);
  write_update(input, parameters, gradients, builder);
  builder.weave();

  Program program = builder.take();
  if (options.fuse) {
    fuse_epilogues(program);
    fuse_residual_norms(program);
  }
  insert_waits(program);
  estimate_work(program);
  return program;
}

}  // namespace hidup
