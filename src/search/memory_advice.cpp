#include "search/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "program/memory.h"
#include "search/parallel.h"

namespace hidup {
namespace {

constexpr size_t kTensors = 5;  // the largest, which a message names

// How far the changes go that are tried.
constexpr int kRankDoublings = 6;      // enough for any cluster of today
constexpr int kMostMicrobatches = 16;  // larger programs take long to plan

// What the searches for a change may cost, in operations times microbatches. A search takes 0.1 to
// 0.2 ms for each of these on one axis (966 operations: 0.7 s with up to 4 microbatches, 5 s with
// 64), and 1.3 ms on two, so that all of them take a few seconds.
constexpr int64_t kMostWork = 4000;
constexpr int64_t kTooLarge = 20000;  // even one search for each change takes too long
// Halving leaves 1 of 256 batches.
constexpr int64_t kMostSearches = 8;
// A search is not tried where even the smallest strategy of little memory needs so many times the
// memory: on two axes searches found plans of half of that.
constexpr double kHopeless = 3.0;

// A run with one thing changed.
struct Variant {
  Graph graph;
  Mesh mesh;
  SearchOptions options;
  std::string fits;       // "train.batch 186 instead of 256 fits"
  double distance = 1.0;  // how far it is from the run that does not fit: by what factor it differs
  std::optional<CostModel> costs = std::nullopt;  // where they are others than those of now
  bool timed = true;                              // how long its messages take is known
};

// Variants of a run in one thing, the nearest first; each needs no more memory than those before.
struct Change {
  int64_t variants = 0;
  std::function<Variant(int64_t)> variant;
};

// The run that does not fit.
struct Run {
  const Graph& graph;
  const Mesh& mesh;
  const SearchOptions& options;
  const CostModel& costs;

  Variant variant() const { return {graph, mesh, options, "", 1.0}; }
};

Change without_hints(const Run& run) {
  return {.variants = run.options.hints.empty() ? 0 : 1, .variant = [run](int64_t) {
            Variant free = run.variant();
            free.options.hints = {};
            free.fits = "without the hints it fits";
            return free;
          }};
}

Change smaller_batch(const Run& run) {
  const int64_t batch = splittable_batch(run.graph);
  const int64_t least =
      run.options.hints.microbatches.value_or(std::ranges::min(run.options.microbatches));
  return {.variants = std::max<int64_t>(batch - least, 0), .variant = [run, batch](int64_t v) {
            const int64_t fewer = batch - 1 - v;
            return Variant{with_batch(run.graph, fewer), run.mesh, run.options,
                           fmt::format("train.batch {} instead of {} fits", fewer, batch),
                           static_cast<double>(batch) / static_cast<double>(fewer)};
          }};
}

Change more_microbatches(const Run& run) {
  const int now = std::ranges::max(microbatches_of(run.graph, run.options));
  const int64_t most = std::min<int64_t>(splittable_batch(run.graph), kMostMicrobatches) / now;
  const bool free = !run.options.hints.microbatches && most >= 2;
  const int64_t doublings = free ? static_cast<int64_t>(std::log2(most)) : 0;
  return {.variants = doublings, .variant = [run, now](int64_t v) {
            Variant more = run.variant();
            more.options.microbatches = {now << (v + 1)};
            more.fits = fmt::format("train.microbatches {} fits", more.options.microbatches[0]);
            more.distance = std::exp2(v + 1);
            return more;
          }};
}

// Along the outermost axis.
Change more_ranks(const Run& run) {
  return {.variants = run.mesh[0].shares.empty() ? kRankDoublings : 0, .variant = [run](int64_t v) {
            Variant more = run.variant();
            Axis& axis = more.mesh[0];
            const int64_t now = axis.size;
            axis.size <<= v + 1;
            more.timed = now > 1;
            if (more.timed) {
              more.costs = run.costs.with_ranks(0, now, axis.size);
            }
            more.fits = fmt::format("{} ranks instead of {} (axis {}: {}) fit", ranks_of(more.mesh),
                                    ranks_of(run.mesh), axis.name, axis.size);
            more.distance = std::exp2(v + 1);
            return more;
          }};
}

Change fewer_bits(const Run& run) {
  const bool has_more = std::ranges::any_of(run.graph.tensors(), [](const Tensor& tensor) {
    return tensor.role == Tensor::Role::parameter && tensor.dtype == DType::f32;
  });
  return {.variants = has_more ? 1 : 0, .variant = [run](int64_t) {
            Variant shorter = run.variant();
            shorter.graph = with_precision(run.graph, DType::bf16);
            shorter.fits = "model.precision bf16 fits";
            shorter.distance = 2.0;
            return shorter;
          }};
}

// All that are tried: a new one is a function like those above, and a name here.
constexpr std::array kChanges = {without_hints, smaller_batch, more_microbatches, fewer_bits,
                                 more_ranks};

// The nearest variant that fits, as a search finds it.
struct Advice {
  std::string line;
  double distance = 1.0;
};

// Looks for the nearest variant of a change with which a strategy fits.
class NearestVariant {
 public:
  NearestVariant(const Change& change, const CostModel& costs, int64_t searches)
      : change_(change), costs_(costs), searches_left_(searches) {}

  std::optional<Advice> find() {
    if (change_.variants == 0) {
      return std::nullopt;
    }
    std::optional<int64_t> fits = nearest_small();
    if (!fits && !hopeless_) {
      fits = change_.variants == 1 ? 0 : first_by_search();  // what a run does comes below
    }
    if (!fits) {
      return std::nullopt;
    }
    const int64_t nearest = by_searches(*fits);
    std::optional<Advice> advice = advice_of(nearest);
    return advice || nearest == *fits ? advice : advice_of(*fits);
  }

 private:
  // By strategies of little memory alone.
  std::optional<int64_t> nearest_small() {
    int64_t fits = change_.variants - 1;
    std::set<std::string, std::less<>> names;  // of those that fit in the last variant
    int64_t least_bytes = std::numeric_limits<int64_t>::max();
    const Variant last = change_.variant(fits);
    visit_small(last, [&](const SmallStrategy& small, bool does) {
      least_bytes = std::min(least_bytes, small.bytes);
      if (does) {
        names.emplace(small.parts.parts[0].strategy.name);
      }
      return false;
    });
    if (names.empty()) {
      hopeless_ = static_cast<double>(least_bytes) >
                  kHopeless * static_cast<double>(last.options.memory_limit);
      return std::nullopt;
    }
    for (int64_t too_large = -1; fits - too_large > 1;) {
      const int64_t middle = std::midpoint(too_large, fits);
      bool one_fits = false;
      visit_small(
          change_.variant(middle), [&](const SmallStrategy&, bool does) { return one_fits = does; },
          [&](std::string_view name) { return names.contains(name); });
      (one_fits ? fits : too_large) = middle;
    }
    return fits;
  }

  template <typename Visit>
  void visit_small(const Variant& variant, Visit visit,
                   const std::function<bool(std::string_view)>& wanted = {}) const {
    visit_small_strategies(
        variant.graph, variant.mesh, costs_, variant.options,
        [&](const SmallStrategy& small) {
          return visit(small, small.bytes <= variant.options.memory_limit);
        },
        wanted);
  }

  // Where no strategy of little memory fits. A search for the nearest variant is often enough.
  std::optional<int64_t> first_by_search() {
    for (const int64_t number : {int64_t{0}, change_.variants - 1}) {
      if (searches_left_-- > 0 && search(change_.variant(number), false)) {
        return number;
      }
    }
    return std::nullopt;
  }

  // A search may find a strategy that fits where none of little memory does.
  int64_t by_searches(int64_t fits) {
    for (int64_t too_large = -1; fits - too_large > 1 && searches_left_ > 0; --searches_left_) {
      const int64_t middle = std::midpoint(too_large, fits);
      (search(change_.variant(middle), false) ? fits : too_large) = middle;
    }
    return fits;
  }

  // None where nothing fits. What a run would do with `combinations`; without, a refusal is quick.
  std::optional<SearchOutcome> search(const Variant& variant, bool combinations) const {
    SearchOptions options = variant.options;
    options.baselines = false;
    options.combinations = combinations;
    options.advice = false;
    options.level = SearchLevel::fast;
    options.threads = 1;  // other changes are looked at beside this one
    options.time_limit_s = 0.0;
    options.deadline = TimeLimit::current();
    try {
      return search_strategy(variant.graph, variant.mesh, variant.costs.value_or(costs_), options);
    } catch (const Error& error) {
      if (error.code() != ExitCode::infeasible) {
        throw;
      }
      return std::nullopt;
    }
  }

  std::optional<Advice> advice_of(int64_t number) const {
    const Variant variant = change_.variant(number);
    const auto found = search(variant, true);
    if (!found) {
      return std::nullopt;
    }
    const auto sequences = static_cast<double>(batch_of(variant.graph));
    const std::string times =
        variant.timed
            ? fmt::format(": {} per step, {} per sequence", format_seconds(found->step.seconds()),
                          format_seconds(found->step.seconds() / sequences))
            : "; how long messages take is not known";
    return Advice{fmt::format("{} with {} per rank{}", variant.fits,
                              format_bytes(found->step.plan.bytes), times),
                  variant.distance};
  }

  const Change& change_;
  const CostModel& costs_;
  int64_t searches_left_;
  bool hopeless_ = false;  // that a search finds something where no strategy of little memory does
};

struct AllAdvice {
  std::vector<std::string> lines;  // the nearest first
  bool complete = true;            // no time limit ended it
};

AllAdvice advice_of(const Run& run, int64_t searches, const Deadline& deadline) {
  const TimeLimit limit(deadline);
  std::array<std::optional<Advice>, kChanges.size()> found;
  in_parallel(found.size(), run.options.threads, [&](size_t c) {
    in_time([&] {
      TimeLimit::check();
      const Change change = kChanges[c](run);
      found[c] = NearestVariant(change, run.costs, searches).find();
    });
  });
  std::ranges::stable_sort(found, {}, [](const std::optional<Advice>& advice) {
    return advice ? advice->distance : std::numeric_limits<double>::infinity();
  });
  AllAdvice all{.lines = {}, .complete = !deadline.has_passed()};
  for (const std::optional<Advice>& advice : found) {
    if (advice) {
      all.lines.push_back(advice->line);
    }
  }
  return all;
}

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
  const int64_t work = std::max<int64_t>(operations * microbatches, 1);
  return work > kTooLarge ? 0 : std::clamp<int64_t>(kMostWork / work, 1, kMostSearches);
}

void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                     const SearchOptions& options, const LeastMemoryStrategy& least,
                     const Deadline& deadline) {
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
  const AllAdvice advice = advice_of({graph, mesh, options, costs}, searches, deadline);
  for (const std::string& line : advice.lines) {
    text += "\n" + line;
  }
  if (!advice.complete) {
    text += "\nthe time limit ended the search for what would fit before all was tried";
  } else if (advice.lines.empty()) {
    text += fmt::format(
        "\nneither a smaller batch nor more microbatches nor {} times as many ranks nor "
        "model.precision bf16 would do",
        1 << kRankDoublings);
  }
  throw Error(ExitCode::infeasible, text);
}

}  // namespace hidup
