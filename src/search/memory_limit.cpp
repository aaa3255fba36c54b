#include "search/memory_limit.h"

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
#include "search/additive.h"
#include "search/build_problem.h"
#include "search/by_axes.h"
#include "search/named.h"

namespace hidup {
namespace {

// How far the search for what would help goes.
constexpr int64_t kMostRanks = 64;     // times as many
constexpr int kMostMicrobatches = 16;  // larger programs take long to plan
constexpr int kMostSearches = 8;       // for the largest batch
// What all searches together may cost, in operations times microbatches, and how many they are at
// least: one for 32 layers in 64 microbatches takes some ten seconds.
constexpr int64_t kMostWork = 20000;
constexpr int64_t kMostAdvised = 5000;  // operations: for more, advice takes minutes
constexpr int64_t kLeastSearches = 4;
constexpr int64_t kAllSearches = 20;

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
      : graph_(graph), mesh_(mesh), costs_(costs), options_(options) {
    const int64_t work = static_cast<int64_t>(graph.ops().size()) *
                         std::ranges::max(microbatches_of(graph, options));
    searches_left_ = std::clamp(kMostWork / work, kLeastSearches, kAllSearches);
  }

  // A line each.
  std::vector<std::string> found() {
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
  // What the first strategy needs that fits, of those that are quick to find. A search may find one
  // where there is none of these.
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

  // What a run with these options would find; none where nothing fits.
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

  // The same as long as searches are left; then nothing fits.
  std::optional<SearchOutcome> next_search(const Graph& graph, const Mesh& mesh,
                                           const SearchOptions& options) {
    return searches_left_-- > 0 ? search(graph, mesh, options) : std::nullopt;
  }

  // What the first strategy needs that fits, of all that a run would find.
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

  // The largest batch for which a search finds something, from one that fits to below one that does
  // not: upwards by growing steps, then by halving what remains. With kMostSearches it may end a
  // little below.
  std::pair<int64_t, SearchOutcome> largest_batch(int64_t fitting, int64_t too_large) {
    std::optional<SearchOutcome> best;
    int64_t step = std::max<int64_t>(fitting / 8, 1);
    for (int tried = 0; tried < kMostSearches && too_large - fitting > 1; ++tried) {
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

  // A changed run: what a frugal strategy or, with a search, any needs that fits.
  using Change = std::function<std::optional<int64_t>(int64_t times, bool searched)>;

  // By how many times, a power of two, a change has to be made at least, and what it then needs.
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
  if (!options.advice) {
    throw Error(ExitCode::infeasible, text);
  }
  if (static_cast<int64_t>(graph.ops().size()) * frugal.strategy.microbatches > kMostWork ||
      static_cast<int64_t>(graph.ops().size()) > kMostAdvised) {
    throw Error(ExitCode::infeasible,
                text + "\nwhat would fit is not looked for: the program is too large");
  }
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
