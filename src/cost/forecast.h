// A step before it runs: the one value that is printed, written and run.
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
  MemoryPlan plan;  // for the rank that needs most, or the largest part of its limit
  Prediction prediction;

  double seconds() const { return prediction.iteration_s; }
};

// Lowers and predicts the strategy on the whole graph.
Forecast forecast(const Graph& graph, Strategy strategy, const LoweringOptions& lowering,
                  const RankCosts& costs, const RankLimits& limits = {});

// Predicts a strategy whose program exists already.
Forecast forecast(Strategy strategy, Program program, const RankCosts& costs,
                  const RankLimits& limits = {});

// Predicts the same step again with other costs.
void predict(Forecast& step, const RankCosts& costs);

// Adds the stages and the prediction to the strategy's notes.
void annotate(Strategy& strategy, const Program& program, const MemoryPlan& plan,
              const Prediction& predicted);

}  // namespace hidup
