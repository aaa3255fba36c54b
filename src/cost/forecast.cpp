#include "cost/forecast.h"

#include <utility>

namespace hidup {

Forecast forecast(const Graph& graph, Strategy strategy, const LoweringOptions& lowering,
                  const RankCosts& costs, const RankLimits& limits) {
  Program program = lower(graph, strategy, lowering);
  return forecast(std::move(strategy), std::move(program), costs, limits);
}

Forecast forecast(Strategy strategy, Program program, const RankCosts& costs,
                  const RankLimits& limits) {
  MemoryPlan plan = tightest_plan(program, limits);
  Forecast step{.strategy = std::move(strategy),
                .program = std::move(program),
                .plan = std::move(plan),
                .prediction = {}};
  predict(step, costs);
  return step;
}

void predict(Forecast& step, const RankCosts& costs) {
  step.prediction = simulate(step.program, costs);
  annotate(step.strategy, step.program, step.plan, step.prediction);
}

void annotate(Strategy& strategy, const Program& program, const MemoryPlan& plan,
              const Prediction& predicted) {
  strategy.stages.clear();
  int stage = -1;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase != Phase::forward || instruction.microbatch != 0 ||
        instruction.stage == stage || is_reshard(instruction.opcode)) {
      continue;
    }
    if (instruction.op >= 0) {
      stage = instruction.stage;
      strategy.stages.push_back(instruction.op);
    }
  }
  strategy.predicted = {.iteration_s = predicted.iteration_s,
                        .compute_s = predicted.busy.compute_s,
                        .comm_s = predicted.busy.comm_s,
                        .exposed_comm_s = predicted.busy.exposed_comm_s,
                        .peak_bytes = plan.bytes};
}

}  // namespace hidup
