#include "search/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "program/memory.h"
#include "search/additive.h"
#include "search/build_problem.h"
#include "search/by_axes.h"
#include "search/named.h"

namespace hidup {
namespace {

// How far the search for what would help goes.
constexpr int64_t kMostRanks = 64;     // times as many
constexpr int kMostMicrobatches = 16;  // larger programs take long to plan

int64_t splittable_batch(const Graph& graph) {
  return batch_obstacle(graph).empty() ? batch_of(graph) : 1;
}

int64_t bytes_of(const Graph& graph, const Strategy& strategy, const SearchOptions& options) {
  const Program program = lower(graph, strategy, options.lowering);
  return plan_memory(program, 0).bytes;  // the first rank has the largest parts
}

// The strategy that is estimated to need least.
Strategy frugal_plan(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                     const SearchOptions& options, int microbatches) {
  const BuiltProblem built =
      build_problem(graph, mesh, costs,
                    {.microbatches = microbatches,
                     .bucket_bytes = options.lowering.bucket_bytes,
                     .same_rules = axes_in_use(mesh) > 1,  // others are too many
                     .hints = &options.hints});
  return to_strategy(graph, mesh, built, most_frugal_plan(built.problem));
}

// Frugal plans and named strategies, as far as they keep the hints, until visit(strategy, bytes)
// says that it is enough.
void visit_frugal(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                  const SearchOptions& options,
                  const std::function<bool(const Strategy&, int64_t)>& visit) {
  const std::vector<int> counts = microbatches_of(graph, options);
  for (const int count : counts) {
    const Strategy strategy = frugal_plan(graph, mesh, costs, options, count);
    if (visit(strategy, bytes_of(graph, strategy, options))) {
      return;
    }
  }
  for (const NamedStrategy& named : named_strategies()) {
    Strategy strategy = named_strategy(named.name, graph, mesh);
    for (const int count : counts) {
      strategy.microbatches = count;
      if (broken_hint(graph, options.hints, strategy).empty() &&
          visit(strategy, bytes_of(graph, strategy, options))) {
        return;
      }
    }
  }
}

// Looks for changes with which a strategy fits.
class Relief {
 public:
  Relief(const Graph& graph, const Mesh& mesh, const CostModel& costs, const SearchOptions& options)
      : graph_(graph), mesh_(mesh), costs_(costs), options_(options) {}

  // A line each.
  std::vector<std::string> found() const {
    std::vector<std::string> lines;
    for (const std::optional<std::string>& line :
         {without_hints(), smaller_batch(), more_microbatches(), more_ranks()}) {
      if (line) {
        lines.push_back(*line);
      }
    }
    return lines;
  }

 private:
  // What the first strategy needs that fits.
  std::optional<int64_t> fits(const Graph& graph, const Mesh& mesh,
                              const SearchOptions& options) const {
    std::optional<int64_t> found;
    visit_frugal(graph, mesh, costs_, options, [&](const Strategy&, int64_t bytes) {
      if (bytes <= options.memory_limit) {
        found = bytes;
      }
      return found.has_value();
    });
    return found;
  }

  std::optional<std::string> without_hints() const {
    if (options_.hints.empty()) {
      return std::nullopt;
    }
    SearchOptions free = options_;
    free.hints = {};
    const auto bytes = fits(graph_, mesh_, free);
    return bytes ? std::optional(
                       fmt::format("without the hints it fits with {}", format_bytes(*bytes)))
                 : std::nullopt;
  }

  std::optional<std::string> smaller_batch() const {
    const int64_t batch = splittable_batch(graph_);
    const int64_t least =
        options_.hints.microbatches.value_or(std::ranges::min(options_.microbatches));
    if (batch / 2 < least || !fits(with_batch(graph_, least), mesh_, options_)) {
      return std::nullopt;
    }
    for (int64_t smaller = batch / 2; smaller >= least; smaller /= 2) {
      if (const auto bytes = fits(with_batch(graph_, smaller), mesh_, options_)) {
        return fmt::format("train.batch {} instead of {} fits with {}", smaller, batch,
                           format_bytes(*bytes));
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> more_microbatches() const {
    const int64_t batch = splittable_batch(graph_);
    const int most = std::ranges::max(microbatches_of(graph_, options_));
    for (int more = 2 * most;
         !options_.hints.microbatches && more <= std::min<int64_t>(batch, kMostMicrobatches);
         more *= 2) {
      SearchOptions options = options_;
      options.microbatches = {more};
      if (const auto bytes = fits(graph_, mesh_, options)) {
        return fmt::format("train.microbatches {} fits with {}", more, format_bytes(*bytes));
      }
    }
    return std::nullopt;
  }

  // Along the outermost axis.
  std::optional<std::string> more_ranks() const {
    const auto larger = [&](int64_t times) {
      Mesh mesh = mesh_;
      mesh[0].size *= times;
      return mesh;
    };
    if (!fits(graph_, larger(kMostRanks), options_)) {
      return std::nullopt;
    }
    for (int64_t times = 2; times <= kMostRanks; times *= 2) {
      const Mesh mesh = larger(times);
      if (const auto bytes = fits(graph_, mesh, options_)) {
        return fmt::format("{} ranks instead of {} (axis {}: {}) fit with {} each", ranks_of(mesh),
                           ranks_of(mesh_), mesh[0].name, mesh[0].size, format_bytes(*bytes));
      }
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
};

}  // namespace

std::vector<int> microbatches_of(const Graph& graph, const SearchOptions& options) {
  const int64_t batch = splittable_batch(graph);
  if (options.hints.microbatches) {
    if (const int wanted = *options.hints.microbatches; wanted > 1 && wanted > batch) {
      fail(ExitCode::usage, "the hints ask for {} microbatches of {} sequence(s)", wanted, batch);
    }
    return {*options.hints.microbatches};
  }
  std::vector<int> counts;
  for (const int count : options.microbatches) {
    if (count == 1 || count <= batch) {
      counts.push_back(count);
    }
  }
  check(!counts.empty(), "a search without microbatches");
  return counts;
}

FrugalStrategy most_frugal_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                    const SearchOptions& options) {
  std::optional<FrugalStrategy> best;
  visit_frugal(graph, mesh, costs, options, [&](const Strategy& strategy, int64_t bytes) {
    if (!best || bytes < best->bytes) {
      best = {strategy, bytes};
    }
    return false;
  });
  return std::move(*best);
}

void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                     const SearchOptions& options, const FrugalStrategy& frugal) {
  constexpr size_t kTensors = 5;
  const Program program = lower(graph, frugal.strategy, options.lowering);
  const MemoryPlan plan = plan_memory(program, 0);
  std::string text = fmt::format(
      "no strategy{} fits in {} per rank: the most frugal that was found ({}, {} microbatch(es)) "
      "needs {}, {} too much\nits largest tensors on a rank: {}",
      options.hints.empty() ? "" : " that keeps the hints", format_bytes(options.memory_limit),
      frugal.strategy.name, frugal.strategy.microbatches, format_bytes(plan.bytes),
      format_bytes(plan.bytes - options.memory_limit), largest_values(program, plan, kTensors));
  const std::vector<std::string> lines = Relief(graph, mesh, costs, options).found();
  for (const std::string& line : lines) {
    text += "\n" + line;
  }
  if (lines.empty()) {
    text += fmt::format(
        "\nneither a smaller batch nor more microbatches nor {} times as many "
        "ranks would do",
        kMostRanks);
  }
  throw Error(ExitCode::infeasible, text);
}

}  // namespace hidup
