#include "app/repeated_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/units.h"
#include "graph/flops.h"
#include "program/memory.h"
#include "search/estimate/estimate.h"

namespace hidup {
namespace {

// An axis is reported if computation takes longer by this part than with all work shared. Norms,
// gates and the like, which named strategies repeat, are far below that.
constexpr double kMuch = 0.25;
constexpr double kSameStep = 1.01;  // times as long; below the errors of predictions

RepeatedAxis repeated_along(const Graph& graph, const Strategy& strategy, size_t axis) {
  RepeatedAxis repeated{.axis = axis};
  double all = 0.0;
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    const double flops = forward_flops(graph, graph.ops()[op]);
    all += flops;
    const Rule& rule = strategy.ops[op].rules[axis];
    if (rule.name == "replicate" && rule.share.is_equal()) {  // other shares leave ranks out
      ++repeated.operations;
      repeated.flops_part += flops;
    }
  }
  repeated.flops_part /= std::max(all, 1.0);
  return repeated;
}

// Returns the strategy with one rank along the axis.
Strategy without(const Graph& graph, Strategy strategy, size_t axis) {
  strategy.mesh[axis].size = 1;
  strategy.mesh[axis].shares.clear();
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    strategy.ops[op].rules[axis] = find_rule(graph, static_cast<OpId>(op), "replicate");
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    parameter.storage[axis] = Placement::replicate();
    parameter.optimizer_state[axis] = Placement::replicate();
  }
  return strategy;
}

// The program of a strategy; for a deep graph, weighted programs of reduced graphs.
class Step {
 public:
  Step(const Graph& graph, const std::vector<ReducedGraph>& reduced, const Strategy& strategy,
       const LoweringOptions& lowering) {
    StrategyParts parts = parts_of(graph, reduced, strategy);
    for (StrategyParts::Part& part : parts.parts) {
      part.strategy.routes = strategy.routes;
      part.strategy.algorithms = strategy.algorithms;
      parts_.push_back({lower(*part.graph, part.strategy, lowering), part.weight});
    }
  }

  double seconds(const RankCosts& costs) const {
    double sum = 0.0;
    for (const Part& part : parts_) {
      sum += part.weight * simulate(part.program, costs).iteration_s;
    }
    return sum;
  }
  int64_t bytes() const {
    double sum = 0.0;
    for (const Part& part : parts_) {
      sum += part.weight * static_cast<double>(largest_plan(part.program).bytes);
    }
    return std::llround(sum);
  }

 private:
  struct Part {
    Program program;
    double weight;
  };
  std::vector<Part> parts_;
};

// A strategy with one rank along an axis, the fastest choice of that rank.
struct Fewer {
  Strategy strategy;
  RankCosts costs;
  double seconds = 0.0;
  int64_t bytes = 0;
};

Fewer fewer_of(const Graph& graph, const std::vector<ReducedGraph>& reduced,
               const Strategy& strategy, size_t axis, const LoweringOptions& lowering,
               const RankCosts& costs) {
  const auto left = [&](int64_t coordinate) {
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < ranks_of(strategy.mesh); ++rank) {
      if (coordinates_of(strategy.mesh, rank)[axis] == coordinate) {
        ranks.push_back(rank);
      }
    }
    return costs.of_ranks(ranks);
  };
  Fewer best{without(graph, strategy, axis), left(0)};
  const Step step(graph, reduced, best.strategy, lowering);
  best.seconds = step.seconds(best.costs);
  best.bytes = step.bytes();
  for (int64_t other = 1; !costs.all_alike() && other < strategy.mesh[axis].size; ++other) {
    RankCosts others = left(other);
    const double seconds = step.seconds(others);
    if (seconds < best.seconds) {
      best.seconds = seconds;
      best.costs = std::move(others);
    }
  }
  return best;
}

std::string describe(const RepeatedAxis& repeated, const RepeatedWork& work, const Mesh& mesh,
                     bool chosen) {
  const Axis& axis = mesh[repeated.axis];
  const int64_t fewer = ranks_of(mesh) / axis.size;
  std::string text = fmt::format(
      "the {} ranks along {} repeat each other's work ({} of {} operations, {:.0f} % of the flops)",
      axis.size, axis.name, repeated.operations, work.operations, 100.0 * repeated.flops_part);
  if (chosen) {
    text += fmt::format(": messages along {} would cost more than sharing saves", axis.name);
  }
  text += fmt::format("; {} rank(s){} would take {} per step, these {} take {}", fewer,
                      repeated.devices.empty() ? "" : " of " + repeated.devices,
                      format_seconds(repeated.step_s), ranks_of(mesh), format_seconds(work.step_s));
  if (!repeated.fits) {
    text += fmt::format(", but would need {} each", format_bytes(repeated.bytes));
  } else if (repeated.step_s <= kSameStep * work.step_s && !repeated.devices.empty()) {
    text += ": the others add nothing";
  } else if (repeated.step_s <= kSameStep * work.step_s) {
    text += axis.size == 2
                ? fmt::format(": rank 2 along {} adds nothing", axis.name)
                : fmt::format(": ranks 2 to {} along {} add nothing", axis.size, axis.name);
  }
  return text;
}

}  // namespace

RepeatedWork repeated_work(const Graph& graph, const Strategy& strategy, const RankCosts& costs,
                           const LoweringOptions& lowering, int64_t memory_limit) {
  RepeatedWork work{.operations = static_cast<int64_t>(graph.ops().size())};
  Strategy least = strategy;  // with one rank along every axis that does not help
  RankCosts least_costs = costs;
  std::vector<ReducedGraph> reduced;
  for (size_t axis = 0; axis < strategy.mesh.size(); ++axis) {
    RepeatedAxis repeated = repeated_along(graph, strategy, axis);
    const auto others = static_cast<double>(strategy.mesh[axis].size - 1);
    if (repeated.flops_part * others < kMuch) {
      continue;
    }
    if (work.axes.empty()) {
      if (!strategy.schedule) {  // fewer layers would make other stages
        reduced = reduced_graphs_of(graph, signatures_of(graph, &strategy));
      }
      work.step_s = Step(graph, reduced, strategy, lowering).seconds(costs);
    }
    const auto fits = [&](const Fewer& fewer) {
      return memory_limit == 0 || fewer.bytes <= memory_limit;
    };
    const Fewer alone = fewer_of(graph, reduced, strategy, axis, lowering, costs);
    repeated.step_s = alone.seconds;
    repeated.devices = alone.costs.class_name();
    repeated.bytes = alone.bytes;
    repeated.fits = fits(alone);
    work.axes.push_back(repeated);
    Fewer fewer = work.axes.size() == 1
                      ? alone
                      : fewer_of(graph, reduced, least, axis, lowering, least_costs);
    if (fewer.seconds <= kSameStep * work.step_s && fits(fewer)) {
      least = std::move(fewer.strategy);
      least_costs = std::move(fewer.costs);
    }
  }
  work.useful_ranks = ranks_of(least.mesh);
  return work;
}

std::string describe(const RepeatedWork& work, const Mesh& mesh, bool chosen) {
  std::vector<std::string> axes;
  for (const RepeatedAxis& repeated : work.axes) {
    axes.push_back(describe(repeated, work, mesh, chosen));
  }
  return fmt::format("{}", fmt::join(axes, "; "));
}

}  // namespace hidup
