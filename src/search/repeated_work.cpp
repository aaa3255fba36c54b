#include "search/repeated_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/units.h"
#include "cost/simulate.h"
#include "graph/flops.h"
#include "program/memory.h"

namespace hidup {
namespace {

// An axis is reported if computation takes longer by this part than with all of it shared. Norms,
// gates and the like, which named strategies repeat, are far less.
constexpr double kMuch = 0.25;
constexpr double kSameStep = 1.01;  // times as long; less than predictions are off by

double flops_of(const Graph& graph, const Op& op) {
  std::vector<Shape> inputs;
  for (const TensorId input : op.inputs) {
    inputs.push_back(graph.tensor(input).shape);
  }
  return forward_flops(op.kind, inputs, graph.tensor(op.output).shape, op.attributes);
}

RepeatedAxis repeated_along(const Graph& graph, const Strategy& strategy, size_t axis) {
  RepeatedAxis repeated{.axis = axis};
  double all = 0.0;
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    const double flops = flops_of(graph, graph.ops()[op]);
    all += flops;
    const Rule& rule = strategy.ops[op].rules[axis];
    if (rule.name == "replicate" && rule.share.is_equal()) {  // another share leaves ranks out
      ++repeated.operations;
      repeated.flops_part += flops;
    }
  }
  repeated.flops_part /= std::max(all, 1.0);
  return repeated;
}

// The strategy with one rank along the axis.
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

struct Step {
  double seconds;
  int64_t bytes;
};

Step step_of(const Graph& graph, const Strategy& strategy, const CostModel& costs,
             const LoweringOptions& lowering) {
  const Program program = lower(graph, strategy, lowering);
  return {simulate(program, costs).iteration_s, largest_plan(program).bytes};
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
  text += fmt::format("; {} rank(s) would take {} per step, these {} take {}", fewer,
                      format_seconds(repeated.step_s), ranks_of(mesh), format_seconds(work.step_s));
  if (!repeated.fits) {
    text += fmt::format(", but would need {} each", format_bytes(repeated.bytes));
  } else if (repeated.step_s <= kSameStep * work.step_s) {
    text += axis.size == 2
                ? fmt::format(": rank 2 along {} adds nothing", axis.name)
                : fmt::format(": ranks 2 to {} along {} add nothing", axis.size, axis.name);
  }
  return text;
}

}  // namespace

RepeatedWork repeated_work(const Graph& graph, const Strategy& strategy, const CostModel& costs,
                           const LoweringOptions& lowering, int64_t memory_limit) {
  RepeatedWork work{.operations = static_cast<int64_t>(graph.ops().size())};
  Strategy least = strategy;  // with one rank along every axis that does not help
  for (size_t axis = 0; axis < strategy.mesh.size(); ++axis) {
    RepeatedAxis repeated = repeated_along(graph, strategy, axis);
    const auto others = static_cast<double>(strategy.mesh[axis].size - 1);
    if (repeated.flops_part * others < kMuch) {
      continue;
    }
    if (work.axes.empty()) {
      work.step_s = step_of(graph, strategy, costs, lowering).seconds;
    }
    const auto fits = [&](const Step& step) {
      return memory_limit == 0 || step.bytes <= memory_limit;
    };
    const Step alone = step_of(graph, without(graph, strategy, axis), costs, lowering);
    repeated.step_s = alone.seconds;
    repeated.bytes = alone.bytes;
    repeated.fits = fits(alone);
    work.axes.push_back(repeated);
    Strategy fewer = without(graph, least, axis);
    const Step step = work.axes.size() == 1 ? alone : step_of(graph, fewer, costs, lowering);
    if (step.seconds <= kSameStep * work.step_s && fits(step)) {
      least = std::move(fewer);
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
