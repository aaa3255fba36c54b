// A step before it runs: one value, from which all is made that is printed, written and run.
#pragma once

#include "cost/rank_costs.h"
#include "cost/simulate.h"
#include "graph/graph.h"
#include "program/lower.h"
#include "program/memory.h"
#include "sharding/strategy.h"

namespace hidup {

struct Forecast {
  Strategy strategy;  // with the stages and the prediction among its notes
  Program program;
  MemoryPlan plan;  // of the rank that needs most
  Prediction prediction;

  double seconds() const { return prediction.iteration_s; }
};

// Of the whole graph, exactly as the strategy says.
Forecast forecast(const Graph& graph, Strategy strategy, const LoweringOptions& lowering,
                  const RankCosts& costs);

// The same of a strategy that was lowered to this program.
Forecast forecast(Strategy strategy, Program program, const RankCosts& costs);

// The same step by other costs.
void predict(Forecast& step, const RankCosts& costs);

// Notes the stages and the prediction in the strategy.
void annotate(Strategy& strategy, const Program& program, const MemoryPlan& plan,
              const Prediction& predicted);

}  // namespace hidup
