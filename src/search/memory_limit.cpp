#include "search/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "search/axes/by_axes.h"
#include "search/dp/additive.h"
#include "search/dp/repeats.h"
#include "search/named/named_strategies.h"
#include "search/problem/build_problem.h"
#include "sharding/memory_choices.h"

namespace hidup {

void limit_memory(SearchOptions& options, const std::vector<int64_t>& memory_of_ranks) {
  // A rank without a limit has room for whatever fits on the others.
  constexpr int64_t kNone = int64_t{1} << 50;
  RankLimits limits = memory_of_ranks;
  std::ranges::replace(limits, 0, kNone);
  const auto [least, most] = std::ranges::minmax(limits);
  options.memory_limit = least == kNone ? 0 : least;
  options.memory_of_ranks = least == most ? RankLimits() : std::move(limits);
}

std::string memory_obstacle(const Candidate& candidate, const SearchOptions& options) {
  const RankLimits& limits = options.memory_of_ranks;
  const int64_t limit =
      limits.empty() ? options.memory_limit : limits[static_cast<size_t>(candidate.memory_rank)];
  if (limit == 0 || candidate.memory_bytes <= limit) {
    return "";
  }
  const std::string where =
      limits.empty() ? "per rank" : fmt::format("on rank {}", candidate.memory_rank);
  return fmt::format("needs {} of {} {}", format_bytes(candidate.memory_bytes), format_bytes(limit),
                     where);
}

int64_t splittable_batch(const Graph& graph) {
  return batch_obstacle(graph).empty() ? batch_of(graph) : 1;
}

std::vector<int> microbatches_of(const Graph& graph, const SearchOptions& options) {
  const int64_t batch = splittable_batch(graph);
  const int groups = options.hints.accumulate.value_or(1);
  const auto fits = [&](int count) {
    return count * groups == 1 || int64_t{count} * groups <= batch;
  };
  const std::vector<int> wanted =
      options.hints.microbatches ? std::vector{*options.hints.microbatches} : options.microbatches;
  check(!wanted.empty(), "a search without microbatches");
  std::vector<int> counts;
  std::ranges::copy_if(wanted, std::back_inserter(counts), fits);
  if (counts.empty()) {
    const std::string of_groups = groups > 1 ? fmt::format(" in each of {} groups", groups) : "";
    fail(ExitCode::usage,
         "the hints ask for {} microbatches{}, and the batch has only {} sequence(s)",
         std::ranges::min(wanted), of_groups, batch);
  }
  return counts;
}

std::vector<int> groups_of(const Graph& graph, const SearchOptions& options, int microbatches) {
  if (options.hints.accumulate) {
    return {*options.hints.accumulate};
  }
  // More microbatches than this have no use for several groups.
  constexpr int kMostOfGroups = 2;
  const bool free = microbatches <= kMostOfGroups && accumulate_obstacle(graph).empty();
  const auto most = static_cast<int>(
      std::min<int64_t>(splittable_batch(graph) / microbatches, std::numeric_limits<int>::max()));
  std::vector<int> groups = {1};
  for (const int wanted : options.accumulate) {
    const int count = std::min(wanted, most);  // a smaller batch never needs more memory
    if (free && count > groups.back()) {
      groups.push_back(count);
    }
  }
  return groups;
}

std::optional<int> fewest_groups(const Graph& graph, const SearchOptions& options, int microbatches,
                                 const std::function<double(int)>& bytes) {
  const int64_t most = std::min<int64_t>(splittable_batch(graph) / microbatches,
                                         std::ranges::max(options.accumulate));
  const bool free = !options.hints.accumulate && accumulate_obstacle(graph).empty();
  for (int groups = 1; free && groups <= most; groups *= 2) {
    if (bytes(groups) <= static_cast<double>(options.memory_limit)) {
      return groups;
    }
  }
  return std::nullopt;
}

void visit_small_strategies(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                            const SearchOptions& options,
                            const std::function<bool(const SmallStrategy&)>& visit,
                            const std::function<bool(std::string_view)>& wanted) {
  const std::vector<int> counts = microbatches_of(graph, options);
  const auto visit_whole = [&](const Strategy& strategy, const std::vector<ReducedGraph>& reduced) {
    if ((wanted && !wanted(strategy.name)) ||
        !broken_hint(graph, options.hints, strategy).empty()) {
      return false;
    }
    const StrategyParts parts = parts_of(graph, reduced, strategy);
    return visit({parts, reduced, &strategy, planned_bytes(parts, options.lowering)});
  };
  std::vector<uint64_t> signatures;          // independent of the number of microbatches
  std::vector<std::pair<int, int>> numbers;  // microbatches and groups
  for (const int count : counts) {
    const std::vector<int> groups = groups_of(graph, options, count);
    numbers.emplace_back(count, groups.front());
    if (groups.size() > 1) {
      numbers.emplace_back(count, groups.back());
    }
  }
  for (const auto& [count, groups] : numbers) {
    const BuiltProblem built =
        build_problem(graph, mesh, costs,
                      {.microbatches = count,
                       .accumulate = groups,
                       .bucket_bytes = options.lowering.bucket_bytes,
                       .gradients_as = options.lowering.gradients_as,
                       .same_rules = axes_in_use(mesh) > 1,  // all combinations are too many
                       .few_activations = true,
                       .hints = &options.hints});
    signatures = signatures_of(built.problem);
    const Plan plan = least_memory_plan(built.problem);
    const Strategy plain = to_strategy(graph, mesh, built, plan);
    Strategy sharded = named_strategy("fsdp", graph, mesh);
    sharded.microbatches = count;
    sharded.accumulate = groups;
    const auto recomputed = [&](const Strategy& strategy) {
      return with_memory_hints(
          options.hints,
          with_recompute(graph, with_residency(strategy, Residency::pass), Recompute::block));
    };
    const auto plain_parts = reduced_graphs_of(graph, signatures, plan.choices);
    if (visit_whole(plain, plain_parts) || visit_whole(recomputed(plain), plain_parts) ||
        visit_whole(recomputed(sharded), reduced_graphs_of(graph, signatures))) {
      return;
    }
  }
  const auto keeps_hints = [&](std::string_view name) {
    if (options.hints.empty()) {
      return true;
    }
    Strategy strategy = named_strategy(name, graph, mesh);
    strategy.microbatches = counts[0];  // the only number if the hints have one
    return broken_hint(graph, options.hints, strategy).empty();
  };
  const auto reduced = reduced_graphs_of(graph, signatures);
  for (const std::string_view name : plain_names(graph, mesh)) {
    if ((wanted && !wanted(name)) || !keeps_hints(name)) {
      continue;
    }
    for (const int count : counts) {
      const StrategyParts parts = named_parts(graph, reduced, name, mesh, count);
      if (visit({parts, reduced, nullptr, planned_bytes(parts, options.lowering)})) {
        return;
      }
    }
  }
}

LeastMemoryStrategy least_memory_strategy(const Graph& graph, const Mesh& mesh,
                                          const CostModel& costs, const SearchOptions& options,
                                          bool first_that_fits) {
  std::optional<LeastMemoryStrategy> best;
  visit_small_strategies(graph, mesh, costs, options, [&](const SmallStrategy& small) {
    if (!best || small.bytes < best->bytes) {
      const Strategy& part = small.parts.parts[0].strategy;
      best = {small.whole != nullptr ? *small.whole : named_strategy(part.name, graph, mesh),
              small.reduced, small.bytes};
      best->strategy.microbatches = part.microbatches;
    }
    return first_that_fits && best->bytes <= options.memory_limit;
  });
  const auto limit = static_cast<double>(options.memory_limit);
  const auto bytes = static_cast<double>(best->bytes);
  if (!best->reduced.empty() && bytes > limit && bytes <= kUncertainBytes * limit) {
    best->reduced.clear();
    best->bytes = planned_bytes(parts_of(graph, {}, best->strategy), options.lowering);
  }
  return std::move(*best);
}

}  // namespace hidup
