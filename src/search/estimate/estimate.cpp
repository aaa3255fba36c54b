#include "search/estimate/estimate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/estimate/choose_routes.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

// Returns the strategy's entry for the operation's input; null where it has none.
const ParameterStrategy* stored(const Op& op, size_t input, const Strategy& strategy) {
  const TensorId id = op.inputs[input];
  const auto at = std::ranges::lower_bound(strategy.parameters, id, {}, &ParameterStrategy::tensor);
  return at == strategy.parameters.end() || at->tensor != id ? nullptr : &*at;
}

// Returns true where the choice stores its parameters as the strategy does.
bool stores_alike(const Op& op, const ChoiceMeaning& meaning, const Strategy& strategy) {
  for (size_t p = 0; p < meaning.inputs.size(); ++p) {
    const ParameterStrategy* parameter = stored(op, meaning.inputs[p], strategy);
    if (parameter == nullptr || parameter->storage != meaning.parameters[p].storage ||
        parameter->optimizer_state != meaning.parameters[p].optimizer_state) {
      return false;
    }
  }
  return true;
}

bool keeps_alike(const Op& op, const ChoiceMeaning& meaning, const Strategy& strategy) {
  for (size_t p = 0; p < meaning.inputs.size(); ++p) {
    const ParameterStrategy* parameter = stored(op, meaning.inputs[p], strategy);
    if (parameter == nullptr || parameter->residency != meaning.residency[p]) {
      return false;
    }
  }
  return true;
}

}  // namespace

StrategyParts parts_of(const Graph& graph, const std::vector<ReducedGraph>& reduced,
                       const Strategy& strategy) {
  StrategyParts result;
  for (const ReducedGraph& shallow : reduced) {
    result.parts.push_back({&shallow.graph, restricted_to(strategy, shallow), shallow.weight});
  }
  if (reduced.empty()) {
    result.parts.push_back({&graph, strategy});
  }
  return result;
}

StrategyParts named_parts(const Graph& graph, const std::vector<ReducedGraph>& reduced,
                          std::string_view name, const Mesh& mesh, int microbatches) {
  StrategyParts result;
  for (const ReducedGraph& shallow : reduced) {
    result.parts.push_back(
        {&shallow.graph, named_strategy(name, shallow.graph, mesh), shallow.weight});
  }
  if (reduced.empty()) {
    result.parts.push_back({&graph, named_strategy(name, graph, mesh)});
  }
  for (StrategyParts::Part& part : result.parts) {
    part.strategy.microbatches = microbatches;
  }
  return result;
}

Prediction simulated(StrategyParts& parts, const ReshardCosts& costs, const RankCosts& ranks,
                     const LoweringOptions& lowering, int64_t* bytes) {
  Prediction sum;
  double planned = 0.0;
  for (StrategyParts::Part& part : parts.parts) {
    const Program program = lower_by_costs(*part.graph, part.strategy, lowering, costs);
    const Prediction one = simulate(program, ranks);
    sum.iteration_s += part.weight * one.iteration_s;
    sum.busy.compute_s += part.weight * one.busy.compute_s;
    sum.busy.comm_s += part.weight * one.busy.comm_s;
    sum.busy.exposed_comm_s += part.weight * one.busy.exposed_comm_s;
    if (bytes != nullptr) {
      planned += part.weight * static_cast<double>(largest_plan(program).bytes);
    }
  }
  if (bytes != nullptr) {
    *bytes = std::llround(planned);
  }
  return sum;
}

int64_t planned_bytes(const StrategyParts& parts, const LoweringOptions& lowering) {
  double bytes = 0.0;
  for (const StrategyParts::Part& part : parts.parts) {
    const Program program = lower(*part.graph, part.strategy, lowering);
    bytes += part.weight * static_cast<double>(largest_plan(program).bytes);
  }
  return std::llround(bytes);
}

RankBytes tightest_bytes(const StrategyParts& parts, const LoweringOptions& lowering,
                         const RankLimits& limits) {
  if (limits.empty()) {
    return {.rank = 0, .bytes = planned_bytes(parts, lowering)};
  }
  std::vector<double> sums(limits.size());
  for (const StrategyParts::Part& part : parts.parts) {
    const std::vector<int64_t> bytes = bytes_of_ranks(lower(*part.graph, part.strategy, lowering));
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      sums[rank] += part.weight * static_cast<double>(bytes[rank]);
    }
  }
  std::vector<int64_t> bytes(sums.size());
  std::ranges::transform(sums, bytes.begin(), [](double sum) { return std::llround(sum); });
  const int64_t tightest = tightest_rank(bytes, limits);
  return {.rank = tightest, .bytes = bytes[static_cast<size_t>(tightest)]};
}

std::optional<std::vector<int>> choices_of(const Graph& graph, const Problem& problem,
                                           const BuiltProblem& built, const Strategy& strategy) {
  std::vector<int> choices;
  std::vector<int> latest(problem.kinds.size());  // per kind, tried first
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const auto kind = static_cast<size_t>(problem.ops[op].kind);
    const std::vector<ChoiceMeaning>& meanings = built.meanings[kind];
    const auto computes_so = [&](const ChoiceMeaning& meaning) {
      return meaning.op_strategy.rules == strategy.ops[op].rules;
    };
    const auto stores_so = [&](const ChoiceMeaning& meaning) {
      return computes_so(meaning) && stores_alike(graph.ops()[op], meaning, strategy);
    };
    const auto is_it = [&](const ChoiceMeaning& meaning) {
      return stores_so(meaning) && keeps_alike(graph.ops()[op], meaning, strategy) &&
             meaning.op_strategy.recompute == strategy.ops[op].recompute;
    };
    if (!is_it(meanings[static_cast<size_t>(latest[kind])])) {
      auto found = std::ranges::find_if(meanings, is_it);
      if (found == meanings.end()) {  // a problem without memory choices
        found = std::ranges::find_if(meanings, stores_so);
      }
      if (found == meanings.end()) {
        found = std::ranges::find_if(meanings, computes_so);  // the first storage is as used
      }
      if (found == meanings.end()) {
        return std::nullopt;
      }
      latest[kind] = static_cast<int>(found - meanings.begin());
    }
    choices.push_back(latest[kind]);
  }
  return choices;
}

}  // namespace hidup
