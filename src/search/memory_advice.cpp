#include "search/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "program/memory.h"

namespace hidup {
namespace {

constexpr size_t kTensors = 5;  // the largest, which a message names

// How far the changes go that are tried.
constexpr int64_t kMostRanks = 64;     // times the given number; enough for any cluster of today
constexpr int kMostMicrobatches = 16;  // larger programs take long to plan
constexpr int kMostBatches = 8;  // searches for the largest batch: halving leaves 1 of 256 batches

// What all searches together may cost, in operations times microbatches. A search took 0.1 to 0.2
// ms for each of these on two cores (966 operations: 0.7 s with up to 4 microbatches, 5 s with 64),
// so that all of them take a few seconds.
constexpr int64_t kMostWork = 20000;
// Enough for all changes: kMostBatches, up to 6 for ranks, 4 for microbatches, 2 for the hints and
// the batch.
constexpr int64_t kMostSearches = 20;

// Looks for changes with which a strategy fits.
class MemoryAdvice {
 public:
  MemoryAdvice(const Graph& graph, const Mesh& mesh, const CostModel& costs,
               const SearchOptions& options, int64_t searches)
      : graph_(graph), mesh_(mesh), costs_(costs), options_(options), searches_left_(searches) {}

  // A line each.
  std::vector<std::string> lines() {
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
  // The bytes of the first strategy of little memory that fits. A search may find one where none of
  // these does.
  std::optional<int64_t> fits(const Graph& graph, const Mesh& mesh,
                              const SearchOptions& options) const {
    std::optional<int64_t> found;
    visit_small_strategies(graph, mesh, costs_, options, [&](const SmallStrategy& small) {
      if (small.bytes <= options.memory_limit) {
        found = small.bytes;
      }
      return found.has_value();
    });
    return found;
  }

  // What a search with these options finds; none where nothing fits.
  std::optional<SearchOutcome> search(const Graph& graph, const Mesh& mesh,
                                      SearchOptions options) const {
    options.baselines = false;
    options.advice = false;
    try {
      return search_strategy(graph, mesh, costs_, options);
    } catch (const Error& error) {
      if (error.code() != ExitCode::infeasible) {
        throw;
      }
      return std::nullopt;
    }
  }

  // The same; none, too, where no searches are left.
  std::optional<SearchOutcome> next_search(const Graph& graph, const Mesh& mesh,
                                           const SearchOptions& options) {
    return searches_left_-- > 0 ? search(graph, mesh, options) : std::nullopt;
  }

  // The bytes of the first strategy that fits, of all that a search finds.
  std::optional<int64_t> fits_a_run(const Graph& graph, const Mesh& mesh,
                                    const SearchOptions& options) {
    if (const auto bytes = fits(graph, mesh, options)) {
      return bytes;
    }
    const auto found = next_search(graph, mesh, options);
    return found ? std::optional(found->candidates[0].memory_bytes) : std::nullopt;
  }

  std::optional<std::string> without_hints() {
    if (options_.hints.empty()) {
      return std::nullopt;
    }
    SearchOptions free = options_;
    free.hints = {};
    const auto bytes = fits_a_run(graph_, mesh_, free);
    return bytes ? std::optional(
                       fmt::format("without the hints it fits with {}", format_bytes(*bytes)))
                 : std::nullopt;
  }

  std::optional<std::string> smaller_batch() {
    const int64_t batch = splittable_batch(graph_);
    const int64_t least =
        options_.hints.microbatches.value_or(std::ranges::min(options_.microbatches));
    if (batch <= least || !fits_a_run(with_batch(graph_, least), mesh_, options_)) {
      return std::nullopt;
    }
    int64_t largest = least;
    for (int64_t too_large = batch; too_large - largest > 1;) {
      const int64_t middle = std::midpoint(largest, too_large);
      (fits(with_batch(graph_, middle), mesh_, options_) ? largest : too_large) = middle;
    }
    const auto [most, found] = largest_batch(largest, batch);
    return fmt::format("train.batch {} instead of {} fits with {}: {} per sequence", most, batch,
                       format_bytes(found.candidates[0].memory_bytes),
                       format_seconds(found.seconds / static_cast<double>(most)));
  }

  // The largest batch for which a search finds something: at least `fitting`, less than
  // `too_large`. It goes up by growing steps, then halves what remains. It may end a little below
  // the largest: see kMostBatches.
  std::pair<int64_t, SearchOutcome> largest_batch(int64_t fitting, int64_t too_large) {
    std::optional<SearchOutcome> best;
    int64_t step = std::max<int64_t>(fitting / 8, 1);
    for (int tried = 0; tried < kMostBatches && too_large - fitting > 1; ++tried) {
      const int64_t next = std::min(fitting + step, std::midpoint(fitting, too_large));
      if (auto found = next_search(with_batch(graph_, next), mesh_, options_)) {
        best = std::move(found);
        fitting = next;
        step *= 2;
      } else {
        too_large = next;
      }
    }
    if (!best) {
      best = search(with_batch(graph_, fitting), mesh_, options_);
    }
    check(best.has_value(), "a search that misses a strategy that fits");
    return {fitting, std::move(*best)};
  }

  // A changed run: the bytes of a strategy of little memory that fits or, if `searched`, of any.
  using Change = std::function<std::optional<int64_t>(int64_t times, bool searched)>;

  // The least power of two, from 2 to `most`, by which the change does; and the bytes then needed.
  static std::optional<std::pair<int64_t, int64_t>> least_times(int64_t most,
                                                                const Change& change) {
    int64_t times = 2;
    std::optional<int64_t> bytes = change(times, times == most);
    while (!bytes && times < most) {
      times *= 2;
      bytes = change(times, times == most);
    }
    for (; bytes && times > 2; times /= 2) {
      const auto fewer = change(times / 2, true);
      if (!fewer) {
        break;
      }
      bytes = fewer;
    }
    return bytes ? std::optional(std::pair(times, *bytes)) : std::nullopt;
  }

  std::optional<std::string> more_microbatches() {
    const int now = std::ranges::max(microbatches_of(graph_, options_));
    const int64_t most = std::min<int64_t>(splittable_batch(graph_), kMostMicrobatches) / now;
    if (options_.hints.microbatches || most < 2) {
      return std::nullopt;
    }
    const auto found = least_times(
        static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most))),
        [&](int64_t times, bool searched) {
          SearchOptions options = options_;
          options.microbatches = {now * static_cast<int>(times)};
          return searched ? fits_a_run(graph_, mesh_, options) : fits(graph_, mesh_, options);
        });
    return found ? std::optional(fmt::format("train.microbatches {} fits with {}",
                                             now * found->first, format_bytes(found->second)))
                 : std::nullopt;
  }

  // Along the outermost axis.
  std::optional<std::string> more_ranks() {
    const auto larger = [&](int64_t times) {
      Mesh mesh = mesh_;
      mesh[0].size *= times;
      return mesh;
    };
    const auto found = least_times(kMostRanks, [&](int64_t times, bool searched) {
      return searched ? fits_a_run(graph_, larger(times), options_)
                      : fits(graph_, larger(times), options_);
    });
    if (!found) {
      return std::nullopt;
    }
    const Mesh mesh = larger(found->first);
    return fmt::format("{} ranks instead of {} (axis {}: {}) fit with {} each", ranks_of(mesh),
                       ranks_of(mesh_), mesh[0].name, mesh[0].size, format_bytes(found->second));
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
  int64_t searches_left_;
};

// Operations that are lowered and simulated for the strategy.
int64_t simulated_operations(const Graph& graph, const LeastMemoryStrategy& least) {
  if (least.reduced.empty()) {
    return static_cast<int64_t>(graph.ops().size());
  }
  int64_t operations = 0;
  for (const ReducedGraph& reduced : least.reduced) {
    operations += static_cast<int64_t>(reduced.graph.ops().size());
  }
  return operations;
}

}  // namespace

int64_t advice_searches(int64_t operations, int64_t microbatches) {
  return std::min(kMostSearches, kMostWork / std::max<int64_t>(operations * microbatches, 1));
}

void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                     const SearchOptions& options, const LeastMemoryStrategy& least) {
  const StrategyParts parts = parts_of(graph, least.reduced, least.strategy);
  const Program program = lower(*parts.parts[0].graph, parts.parts[0].strategy, options.lowering);
  const int microbatches = least.strategy.microbatches;
  std::string text = fmt::format(
      "no strategy{} fits in {} per rank: the one that needs the least memory, {} with {} "
      "microbatch{}, needs {}, {} too much\nits largest tensors on a rank: {}",
      options.hints.empty() ? "" : " that keeps the hints", format_bytes(options.memory_limit),
      least.strategy.name, microbatches, microbatches == 1 ? "" : "es", format_bytes(least.bytes),
      format_bytes(least.bytes - options.memory_limit),
      largest_values(program, largest_plan(program), kTensors));
  if (!options.advice) {
    throw Error(ExitCode::infeasible, text);
  }
  const int64_t searches = advice_searches(simulated_operations(graph, least),
                                           std::ranges::max(microbatches_of(graph, options)));
  if (searches == 0) {
    throw Error(ExitCode::infeasible,
                text + "\nwhat would fit is not looked for: the program is too large");
  }
  const std::vector<std::string> lines =
      MemoryAdvice(graph, mesh, costs, options, searches).lines();
  for (const std::string& line : lines) {
    text += "\n" + line;
  }
  if (lines.empty()) {
    text += fmt::format(
        "\nneither a smaller batch nor more microbatches nor {} times as many ranks would do",
        kMostRanks);
  }
  throw Error(ExitCode::infeasible, text);
}

}  // namespace hidup
