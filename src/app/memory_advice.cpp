#include "app/memory_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "program/memory.h"
#include "search/memory_limit.h"
#include "search/parallel.h"

namespace hidup {
namespace {

constexpr size_t kTensors = 5;  // the number of largest tensors in a message

// The limit of the searches for a change, in operations times microbatches. For each of these a
// search takes 0.1 to 0.2 ms on one axis (966 operations: 0.7 s with up to 4 microbatches, 5 s with
// 64), and 1.3 ms on two, so all searches take a few seconds.
constexpr int64_t kMostWork = 4000;
constexpr int64_t kTooLarge = 20000;  // one search per change takes too long already
// Eight halvings find 1 of 256 batches.
constexpr int64_t kMostSearches = 8;
// No search follows where even the smallest strategy of little memory needs this many times the
// memory. On two axes searches found plans of half of that.
constexpr double kHopeless = 3.0;

// The nearest variant found to fit.
struct Advice {
  std::string line;
  double distance = 1.0;
};

// Finds the nearest variant of a change with which a strategy fits.
class NearestVariant {
 public:
  NearestVariant(const PlannedRun& run, const Change& change, const CostModel& costs,
                 int64_t searches)
      : run_(run), change_(change), costs_(costs), searches_left_(searches) {}

  std::optional<Advice> find() {
    if (change_.variants == 0) {
      return std::nullopt;
    }
    std::optional<int64_t> fits = nearest_small();
    if (!fits && !hopeless_) {
      fits = change_.variants == 1 ? 0 : first_by_search();  // advice_of() repeats the run's search
    }
    if (!fits) {
      return std::nullopt;
    }
    const int64_t nearest = by_searches(*fits);
    std::optional<Advice> advice = advice_of(nearest);
    return advice || nearest == *fits ? advice : advice_of(*fits);
  }

 private:
  // Finds the nearest variant in which a strategy of little memory fits.
  std::optional<int64_t> nearest_small() {
    int64_t fits = change_.variants - 1;
    std::set<std::string, std::less<>> names;  // of strategies that fit in the last variant
    int64_t least_bytes = std::numeric_limits<int64_t>::max();
    const ChangedRun last = change_.variant(fits);
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

  const Graph& graph_of(const ChangedRun& changed) const {
    return changed.graph ? *changed.graph : run_.graph;
  }

  template <typename Visit>
  void visit_small(const ChangedRun& changed, Visit visit,
                   const std::function<bool(std::string_view)>& wanted = {}) const {
    visit_small_strategies(
        graph_of(changed), changed.mesh, costs_, changed.options,
        [&](const SmallStrategy& small) {
          return visit(small, small.bytes <= changed.options.memory_limit);
        },
        wanted);
  }

  // Searches where no strategy of little memory fits; the nearest variant is often enough.
  std::optional<int64_t> first_by_search() {
    for (const int64_t number : {int64_t{0}, change_.variants - 1}) {
      if (searches_left_-- > 0 && search(change_.variant(number), false)) {
        return number;
      }
    }
    return std::nullopt;
  }

  // Looks for nearer variants, because searches may find smaller strategies.
  int64_t by_searches(int64_t fits) {
    for (int64_t too_large = -1; fits - too_large > 1 && searches_left_ > 0; --searches_left_) {
      const int64_t middle = std::midpoint(too_large, fits);
      (search(change_.variant(middle), false) ? fits : too_large) = middle;
    }
    return fits;
  }

  // Returns none where nothing fits. `combinations`: searches as a run does; false: refuses faster.
  std::optional<SearchOutcome> search(ChangedRun changed, bool combinations) const {
    changed.options.combinations = combinations;
    changed.options.level = SearchLevel::fast;
    changed.options.time_limit_s = 0.0;
    changed.options.deadline = TimeLimit::current();
    return search_changed(run_, changed,
                          run_.costs_of(changed.mesh, std::nullopt).value_or(costs_));
  }

  std::optional<Advice> advice_of(int64_t number) const {
    const ChangedRun changed = change_.variant(number);
    const auto found = search(changed, true);
    if (!found) {
      return std::nullopt;
    }
    const auto sequences = static_cast<double>(batch_of(graph_of(changed)));
    const bool timed = run_.costs_of(changed.mesh, std::nullopt).has_value();
    const std::string times =
        timed ? fmt::format(": {} per step, {} per sequence", format_seconds(found->step.seconds()),
                            format_seconds(found->step.seconds() / sequences))
              : "; how long messages take is not known";
    return Advice{fmt::format("{} with {} per rank{}", changed.what,
                              format_bytes(found->step.plan.bytes), times),
                  changed.distance};
  }

  const PlannedRun& run_;
  const Change& change_;
  const CostModel& costs_;
  int64_t searches_left_;
  bool hopeless_ = false;  // searches cannot fit where no strategy of little memory does
};

struct AllAdvice {
  std::vector<std::string> lines;  // the nearest first
  bool complete = true;            // no time limit ended it
};

AllAdvice advice_of(const PlannedRun& run, const CostModel& costs, int64_t searches,
                    const Deadline& deadline) {
  const TimeLimit limit(deadline);
  const std::vector<Change> changes = saving_changes(run);
  std::vector<std::optional<Advice>> found(changes.size());
  in_parallel(found.size(), run.options.threads, [&](size_t c) {
    in_time([&] {
      TimeLimit::check();
      found[c] = NearestVariant(run, changes[c], costs, searches).find();
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

// Returns the number of operations lowered and simulated for the strategy.
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

namespace {

// Describes the missing memory.
std::string refusal(const PlannedRun& run, const LeastMemoryStrategy& least) {
  const SearchOptions& options = run.options;
  const StrategyParts parts = parts_of(run.graph, least.reduced, least.strategy);
  const Program program = lower(*parts.parts[0].graph, parts.parts[0].strategy, options.lowering);
  const int microbatches = least.strategy.microbatches;
  return fmt::format(
      "no strategy{} fits in {} per rank: the one that needs the least memory, {} with {} "
      "microbatch{}, needs {}, {} too much\nits largest tensors on a rank: {}",
      options.hints.empty() ? "" : " that keeps the hints", format_bytes(options.memory_limit),
      least.strategy.name, microbatches, microbatches == 1 ? "" : "es", format_bytes(least.bytes),
      format_bytes(least.bytes - options.memory_limit),
      largest_values(program, largest_plan(program), kTensors));
}

// Describes the changes that help.
std::string advice_text(const PlannedRun& run, const CostModel& costs,
                        const LeastMemoryStrategy& least, const Deadline& deadline) {
  const int64_t searches =
      advice_searches(simulated_operations(run.graph, least),
                      std::ranges::max(microbatches_of(run.graph, run.options)));
  if (searches == 0) {
    return "\nwhat would fit is not looked for: the program is too large";
  }
  const AllAdvice advice = advice_of(run, costs, searches, deadline);
  std::string text;
  for (const std::string& line : advice.lines) {
    text += "\n" + line;
  }
  if (!advice.complete) {
    text += "\nthe time limit ended the search for what would fit before all was tried";
  } else if (advice.lines.empty()) {
    text += fmt::format(
        "\nneither a smaller batch nor more microbatches nor {} times as many ranks nor "
        "model.precision bf16 would do",
        kMoreRanks);
  }
  return text;
}

}  // namespace

SearchOutcome search_or_advise(const PlannedRun& run) {
  const double limit_s = run.options.time_limit_s;
  const Deadline end = limit_s > 0.0 ? Deadline::in(limit_s) : run.options.deadline;
  SearchResult result = search_strategy(run.graph, run.mesh, run.costs, run.options, &run.ranks);
  if (const auto* nothing = std::get_if<Infeasible>(&result)) {
    fail(ExitCode::infeasible, "{}{}", refusal(run, nothing->least),
         advice_text(run, run.costs, nothing->least, end));
  }
  return std::get<SearchOutcome>(std::move(result));
}

}  // namespace hidup
