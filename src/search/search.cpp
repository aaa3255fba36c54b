#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "core/units.h"
#include "search/choose_ways.h"
#include "search/dp/improve.h"
#include "search/dp/repeats.h"
#include "search/estimate.h"
#include "search/memory_advice.h"
#include "search/memory_limit.h"
#include "search/named/named_strategies.h"
#include "search/named_candidates.h"
#include "search/parallel.h"
#include "search/solutions.h"
#include "search/storage_variations.h"

namespace hidup {
namespace {

// Of the time limit, after which choices for short memory leave the rest to advice, and the proof
// to the simulation of candidates.
constexpr double kProof = 0.6;
// One forecast takes this many times as long as lowering the strategy; those of the plans that come
// first once the time is over take this many times as long together.
constexpr double kForecast = 4.0, kForecasts = 8.0;
constexpr double kMostForForecasts = 0.7;  // of the limit
// The timed lowering takes at most this part of the limit. Where it takes longer, no forecast ends
// in time.
constexpr double kMostForTrial = 0.1;
// A forecast that has not ended after this many times the limit is given up for that of a named
// strategy.
constexpr double kTooLate = 1.2;

struct Deadlines {
  Deadline all, proof;      // of the search; of its proof
  Deadline end;             // of the forecasts, too
  Deadline too_late;        // of a forecast that was expected to end in time
  double forecast_s = 0.0;  // a forecast takes about this long per microbatch
};

// As this machine lowers now, a part of the limit is kept for forecasts.
Deadlines deadlines_of(const Graph& graph, const Mesh& mesh, const SearchOptions& options) {
  const double limit = options.time_limit_s;
  if (limit <= 0.0) {
    return {.all = options.deadline,
            .proof = options.deadline,
            .end = options.deadline,
            .too_late = options.too_late};
  }
  const Deadline end = Deadline::in(limit);
  const Deadline too_late = Deadline::in(kTooLate * limit);
  bool ended = false;
  {
    const Deadline soon = Deadline::in(kMostForTrial * limit);
    const TimeLimit at_most(soon);
    Strategy trial = with_memory_hints(options.hints, named_strategy("dp", graph, mesh));
    trial.accumulate = 1;
    ended = in_time([&] { lower(graph, trial, options.lowering); });
  }
  const double lowering_s = limit - end.seconds_left();
  const int least =
      std::ranges::min(microbatches_of(graph, options)) * options.hints.accumulate.value_or(1);
  const double left = limit - std::min(kForecasts * lowering_s * least, kMostForForecasts * limit);
  return {.all = Deadline::in(left - lowering_s),
          .proof = Deadline::in(kProof * left),
          .end = end,
          .too_late = too_late,
          .forecast_s = ended ? kForecast * lowering_s : limit};
}

class Search {
 public:
  Search(const Graph& graph, const Mesh& mesh, const CostModel& costs, const SearchOptions& options)
      : graph_(graph),
        mesh_(mesh),
        costs_(costs),
        options_(options),
        reshards_(mesh, costs),
        deadlines_(deadlines_of(graph, mesh, options)) {}

  SearchOutcome run() {
    {
      const TimeLimit limit(deadlines_.all);
      if (!in_time([&] { look(); })) {
        outcome_.timed_out = true;
        leave_out_unsimulated();
      }
    }
    forecast_the_fastest();
    finish();
    return std::move(outcome_);
  }

 private:
  void look() {
    const ProblemSolver solver(graph_, mesh_, costs_, options_, deadlines_.all);
    solutions_ = solver.build();
    if (solutions_[0].built) {
      signatures_ = signatures_of(solutions_[0].built->problem);
      reduced_ = reduced_graphs_of(graph_, signatures_);
    }
    solver.solve(solutions_, [&] { named_.emplace(graph_, mesh_, costs_, options_, reduced_); });
    {
      const TimeLimit rest_is_for_advice(deadlines_.proof);
      solver.add_choices_of_memory(solutions_);
    }
    solver.certify(solutions_, deadlines_.proof);
    outcome_.timed_out = deadlines_.proof.has_passed();
    add_plans();
    simulate_from(0);
    add_variations();
    add_deferred();
    add_named();
    simulate_from(plans_);
  }

  // A candidate, and the graphs that are simulated for it.
  struct Entry {
    Candidate candidate;
    std::vector<ReducedGraph> reduced;  // of its own
    StrategyParts parts;
    const Solution* solution = nullptr;  // of the plan; null: not from a plan
    const FoundPlan* plan = nullptr;
    Strategy whole;                // neither a plan nor a named strategy
    bool deferred = false;         // Strategy::defer_gradients, unlike the plan
    std::optional<Forecast> step;  // of the fastest that was forecast only
  };
  // The best plan for every number of microbatches, and the best of the others.
  void add_plans() {
    struct Found {
      const Solution* solution;
      double seconds;
      const FoundPlan* plan;
      const FoundStrategy* by_axes;
      bool best;
    };
    std::vector<Found> found;
    double bound = std::numeric_limits<double>::infinity();
    for (const Solution& solution : solutions_) {
      const std::vector<FoundPlan>& plans = solution.found.plans;
      const std::vector<FoundStrategy>& strategies = solution.by_axes;
      bound = std::min(bound, solution.found.lower_bound);
      for (size_t p = 0; p < std::min(plans.size(), options_.simulated); ++p) {
        found.push_back({&solution, plans[p].cost.seconds, &plans[p], nullptr, p == 0});
      }
      for (const FoundPlan& plan : solution.before_proof) {  // it may be faster by the simulation
        found.push_back({&solution, plan.cost.seconds, &plan, nullptr, true});
      }
      for (size_t p = 0; p < std::min(strategies.size(), options_.simulated); ++p) {
        found.push_back({&solution, strategies[p].objective_s, nullptr, &strategies[p], p == 0});
      }
    }
    std::ranges::stable_sort(found, {}, &Found::seconds);
    outcome_.objective_s = found.empty() ? 0.0 : found[0].seconds;
    outcome_.lower_bound_s = bound;
    size_t others = 0;
    for (const Found& each : found) {
      if (each.best || ++others < options_.simulated) {
        if (each.plan != nullptr) {
          add_plan(*each.solution, *each.plan);
        } else {
          Entry entry;
          entry.whole = each.by_axes->strategy;
          entry.parts = parts_of(graph_, {}, entry.whole);
          entry.candidate.objective_s = each.seconds;
          check_hints(entry, entry.whole);
          entries_.push_back(std::move(entry));
        }
      }
    }
    plans_ = entries_.size();
  }

  void check_hints(Entry& entry, const Strategy& strategy) const {
    if (!options_.hints.empty()) {
      entry.candidate.reason = broken_hint(graph_, options_.hints, strategy);
      entry.candidate.feasible = entry.candidate.reason.empty();
    }
  }

  void add_plan(const Solution& solution, const FoundPlan& found) {
    Entry entry;
    const std::vector<uint64_t> signatures =
        solution.memory_choices ? signatures_of(solution.built->problem) : signatures_;
    entry.reduced = reduced_graphs_of(graph_, signatures, found.plan.choices);
    const Strategy strategy = to_strategy(graph_, mesh_, *solution.built, found.plan);
    entry.parts = parts_of(graph_, entry.reduced, strategy);
    entry.candidate = {.approximate = !entry.reduced.empty(), .objective_s = found.cost.seconds};
    check_hints(entry, strategy);
    entry.solution = &solution;
    entry.plan = &found;
    entries_.push_back(std::move(entry));
  }

  // The candidates so far, the fastest first, without those that break hints or were not simulated.
  std::vector<size_t> by_time() const {
    std::vector<size_t> order;
    for (size_t e = 0; e < entries_.size(); ++e) {
      if (entries_[e].candidate.feasible) {
        order.push_back(e);
      }
    }
    std::ranges::stable_sort(order, {}, [&](size_t e) { return entries_[e].candidate.seconds; });
    return order;
  }

  // The simulation can tell plans apart for which the objective is nearly equal.
  void add_variations() {
    const std::vector<size_t> order = by_time();
    if (order.empty() || options_.variations == 0) {
      return;
    }
    const Entry& best = entries_[order[0]];
    if (best.plan == nullptr) {
      return;
    }
    const Solution& solution = *best.solution;
    if (!best.candidate.approximate) {  // else there are too many operations to simulate more
      variations_ = variations(solution.built->problem, best.plan->plan, options_.variations);
    }
    if (axes_in_use(mesh_) > 1) {  // on one axis there is little to choose
      std::ranges::move(storage_variations(*solution.built, best.plan->plan),
                        std::back_inserter(variations_));
    }
    for (const FoundPlan& found : variations_) {
      add_plan(solution, found);
    }
    simulate_from(plans_);
    plans_ = entries_.size();
  }

  // The fastest with all gradients in one message behind the backward pass: where latencies count
  // for more than what buckets hide. The objective does not know it.
  void add_deferred() {
    constexpr size_t kDeferred = 2;
    constexpr double kWorthNoBound = 0.99;
    const std::vector<size_t> order = by_time();
    if (options_.hints.defer_gradients || order.empty()) {
      return;
    }
    for (const size_t e : std::span(order).first(std::min(order.size(), kDeferred))) {
      const Entry& of = entries_[e];
      Entry deferred;
      deferred.candidate.approximate = of.candidate.approximate;
      deferred.parts = of.parts;  // of graphs that `of` keeps
      deferred.solution = of.solution;
      deferred.plan = of.plan;
      deferred.whole = of.whole;
      deferred.deferred = true;
      for (StrategyParts::Part& part : deferred.parts.parts) {
        part.strategy.defer_gradients = true;
        part.strategy.routes.clear();
        part.strategy.algorithms.clear();
      }
      deferred.whole.defer_gradients = true;
      entries_.push_back(std::move(deferred));
    }
    simulate_from(plans_);
    // No bound covers them, so a small gain is not worth it.
    const double best = entries_[order[0]].candidate.seconds;
    std::erase_if(entries_, [&](const Entry& entry) {
      return entry.deferred && entry.candidate.seconds > kWorthNoBound * best;
    });
    plans_ = entries_.size();
  }

  void add_named() {
    const std::vector<size_t> order = by_time();
    const Entry* best = order.empty() ? nullptr : &entries_[order[0]];
    const double best_s =
        best != nullptr ? best->candidate.seconds : std::numeric_limits<double>::infinity();
    const int microbatches = best != nullptr ? best->parts.parts[0].strategy.microbatches : 0;
    if (!named_) {  // the time limit ended it
      return;
    }
    for (NamedCandidate& found : named_->of(solutions_, best_s, microbatches)) {
      Entry entry;
      entry.candidate = {.approximate = !reduced_.empty(), .objective_s = found.objective_s};
      entry.parts = std::move(found.parts);
      if (!options_.hints.empty()) {
        check_hints(entry, without_ways(entry));
      }
      entries_.push_back(std::move(entry));
    }
  }

  void simulate_from(size_t first) {
    in_parallel(entries_.size() - first, options_.threads, [&](size_t e) {
      Entry& entry = entries_[first + e];
      if (entry.candidate.feasible && !in_time([&] { simulate(entry); })) {
        leave_out(entry);
      }
    });
  }

  // The time limit left no time for the candidate.
  static void leave_out(Entry& entry) {
    entry.candidate.feasible = false;
    entry.candidate.reason = kNotInTime;
  }
  void leave_out_unsimulated() {
    for (Entry& entry : entries_) {
      if (entry.candidate.feasible && entry.candidate.seconds == 0.0) {
        leave_out(entry);
      }
    }
  }

  void simulate(Entry& entry) const {
    TimeLimit::check();
    // Where there are no plans, memory is short: all candidates may have to be planned.
    const bool plans = options_.baselines || plans_ == 0;
    const Prediction prediction = simulated(entry.parts, reshards_, options_.lowering,
                                            plans ? &entry.candidate.memory_bytes : nullptr);
    entry.candidate.seconds = prediction.iteration_s;
    entry.candidate.busy = prediction.busy;
  }

  void plan_memory(Entry& entry) const {
    Candidate& candidate = entry.candidate;
    if (candidate.feasible && candidate.memory_bytes == 0) {
      candidate.memory_bytes = planned_bytes(entry.parts, options_.lowering);
    }
    check_memory(candidate);
  }

  void check_memory(Candidate& candidate) const {
    if (candidate.feasible && options_.memory_limit > 0 &&
        candidate.memory_bytes > options_.memory_limit) {
      candidate.feasible = false;
      candidate.reason =
          fmt::format("needs {} of {} per rank", format_bytes(candidate.memory_bytes),
                      format_bytes(options_.memory_limit));
    }
  }

  void rank() {
    std::ranges::stable_sort(entries_, {}, [](const Entry& entry) {
      return std::pair(!entry.candidate.feasible, entry.candidate.seconds);
    });
  }

  // The program's passes over the graph: the microbatches of all groups.
  static int passes_of(const Entry& entry) {
    const Strategy& strategy = entry.parts.parts[0].strategy;
    return strategy.microbatches * strategy.accumulate;
  }

  // The entry's forecast would end too late, and there is something else to take.
  bool is_too_late_for(const Entry& entry) {
    const bool ends_late = deadlines_.end.seconds_left() < deadlines_.forecast_s * passes_of(entry);
    if (forecast_entry() != nullptr) {
      return ends_late || deadlines_.all.has_passed();
    }
    return ends_late && std::ranges::any_of(entries_, [&](const Entry& other) {
             return other.candidate.feasible && passes_of(other) < passes_of(entry);
           });
  }

  // Reduced graphs say only about what a step takes. So whatever comes first is forecast with the
  // whole graph, until what comes first has been.
  void forecast_the_fastest() {
    if (options_.baselines) {
      const TimeLimit limit(deadlines_.all);
      in_parallel(entries_.size(), options_.threads,
                  [&](size_t e) { in_time([&] { plan_memory(entries_[e]); }); });
    }
    const auto unsure = [&] {
      rank();
      return !entries_.empty() && entries_[0].candidate.feasible && !entries_[0].step;
    };
    while (unsure()) {
      Entry& first = entries_[0];
      if (is_too_late_for(first)) {
        leave_out(first);
        continue;
      }
      const TimeLimit limit(deadlines_.too_late);
      const bool ended = in_time([&] {
        plan_memory(first);
        if (first.candidate.feasible) {
          forecast_step(first);
        }
      });
      if (!ended) {
        leave_out(first);
        gave_up_ = true;
      }
    }
  }

  // The fastest of those that were forecast and fit; null: none was.
  Entry* forecast_entry() {
    const auto found =
        std::ranges::find_if(entries_, [](const Entry& entry) { return entry.step.has_value(); });
    return found == entries_.end() ? nullptr : &*found;
  }

  void forecast_step(Entry& entry) {
    Forecast step = forecast(graph_, whole_strategy(entry), options_.lowering, costs_);
    Candidate& candidate = entry.candidate;
    candidate.seconds = step.seconds();
    candidate.busy = step.prediction.busy;
    candidate.memory_bytes = step.plan.bytes;
    candidate.approximate = false;
    check_memory(candidate);
    Entry* const before = forecast_entry();
    if (candidate.feasible && (before == nullptr || step.seconds() <= before->step->seconds())) {
      if (before != nullptr) {
        before->step.reset();  // programs of deep graphs are large
      }
      entry.step = std::move(step);
    }
  }

  // The dynamic programming estimates memory: a strategy that seems too large to it may fit.
  void add_least_memory() {
    LeastMemoryStrategy least =
        least_memory_strategy(graph_, mesh_, costs_, options_, outcome_.timed_out);
    if (least.bytes <= options_.memory_limit || options_.memory_limit == 0) {
      Entry& entry = entries_.emplace_back();
      entry.whole = least.strategy;
      forecast_step(entry);
      least.bytes = entry.candidate.memory_bytes;
    }
    if (options_.memory_limit > 0 && least.bytes > options_.memory_limit) {
      fail_infeasible(graph_, mesh_, costs_, options_, least, deadlines_.all);
    }
  }

  // The reduced graphs, where there are any, estimate more bytes than can fit.
  bool is_surely_too_large(const Strategy& strategy) const {
    return options_.memory_limit > 0 && !reduced_.empty() &&
           static_cast<double>(
               planned_bytes(parts_of(graph_, reduced_, strategy), options_.lowering)) >
               kUncertainBytes * static_cast<double>(options_.memory_limit);
  }

  // The fastest candidate that the time limit left without a forecast and whose forecast may yet
  // end in time; null: there is none.
  Entry* best_late_entry() {
    const auto estimated_s = [](const Entry& entry) {
      const Candidate& candidate = entry.candidate;
      return candidate.seconds > 0.0 ? candidate.seconds : candidate.objective_s;
    };
    Entry* best = nullptr;
    for (Entry& entry : entries_) {
      const double forecast_s = deadlines_.forecast_s * passes_of(entry);
      if (entry.candidate.reason == kNotInTime && estimated_s(entry) > 0.0 &&
          forecast_s <= deadlines_.too_late.seconds_left() &&
          (best == nullptr || estimated_s(entry) < estimated_s(*best))) {
        best = &entry;
      }
    }
    return best;
  }

  // Forecasts what the time limit left without a forecast: the fastest candidate that may end in
  // time, else a named strategy. False where none fits.
  bool add_first() {
    const auto fits = [&](Entry& entry) {
      entry.candidate.feasible = true;
      entry.candidate.reason.clear();
      check_hints(entry, without_ways(entry));
      if (entry.candidate.feasible) {
        forecast_step(entry);
      }
      return entry.candidate.feasible;
    };
    Entry* const best = best_late_entry();
    if (best != nullptr && !gave_up_ && fits(*best)) {
      return true;
    }
    for (const char* name : {"dp", "zero1", "fsdp"}) {
      Entry& entry = entries_.emplace_back();
      entry.whole = with_memory_hints(options_.hints, named_strategy(name, graph_, mesh_));
      entry.whole.microbatches = microbatches_of(graph_, options_)[0];
      entry.parts = parts_of(graph_, {}, entry.whole);
      if (!is_surely_too_large(entry.whole) && fits(entry)) {
        return true;
      }
      entries_.pop_back();
    }
    return false;
  }

  // With its routes and algorithms.
  Strategy whole_strategy(const Entry& entry) const {
    if (entry.parts.parts.size() == 1 && entry.candidate.seconds > 0.0) {  // it was simulated
      return entry.parts.parts[0].strategy;
    }
    return with_ways(graph_, without_ways(entry), options_.lowering, costs_);
  }
  Strategy without_ways(const Entry& entry) const {
    if (entry.plan != nullptr) {
      Strategy strategy = to_strategy(graph_, mesh_, *entry.solution->built, entry.plan->plan);
      strategy.defer_gradients |= entry.deferred;
      return strategy;
    }
    if (!entry.whole.ops.empty()) {
      return entry.whole;
    }
    const Strategy& part = entry.parts.parts[0].strategy;
    Strategy strategy =
        reduced_.empty()
            ? part
            : with_memory_hints(options_.hints, named_strategy(part.name, graph_, mesh_));
    strategy.microbatches = part.microbatches;
    strategy.accumulate = part.accumulate;
    strategy.defer_gradients = part.defer_gradients;
    return strategy;
  }
  static Strategy label_of(const Entry& entry) {
    const Strategy& part = entry.parts.parts[0].strategy;
    return {.name = part.name,
            .mesh = part.mesh,
            .microbatches = part.microbatches,
            .accumulate = part.accumulate};
  }

  void name_candidates() {
    const TimeLimit limit(deadlines_.end);
    for (Entry& entry : entries_) {
      Strategy& strategy = entry.candidate.strategy;
      const bool whole = (options_.baselines || !entry.candidate.approximate) &&
                         entry.candidate.reason != kNotInTime;
      if (outcome_.candidates.empty()) {
        strategy = outcome_.step.strategy;
      } else if (!whole || !in_time([&] { strategy = whole_strategy(entry); })) {
        strategy = label_of(entry);
      }
      outcome_.candidates.push_back(std::move(entry.candidate));
    }
  }

  void finish() {
    outcome_.timed_out |= gave_up_ || deadlines_.all.has_passed();
    const auto feasible = [](const Entry& entry) { return entry.candidate.feasible; };
    if (std::ranges::none_of(entries_, feasible) && !(outcome_.timed_out && add_first())) {
      add_least_memory();
    }
    rank();
    outcome_.step = *std::move(entries_[0].step);
    name_candidates();
    const double taken_s = outcome_.candidates[0].objective_s > 0.0
                               ? outcome_.candidates[0].objective_s
                               : outcome_.step.seconds();
    if (outcome_.objective_s == 0.0) {  // by the estimated bytes no plan fits
      outcome_.objective_s = taken_s;
    } else if (outcome_.timed_out) {  // the plan with the least may have got no forecast
      outcome_.objective_s = std::max(outcome_.objective_s, taken_s);
    }
    if (outcome_.step.strategy.defer_gradients && !options_.hints.defer_gradients) {
      outcome_.lower_bound_s = 0.0;  // it is one of strategies that send gradients in buckets
    }
    const double bound = outcome_.lower_bound_s;
    outcome_.gap = bound > 0.0 ? outcome_.objective_s / bound - 1.0 : 0.0;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
  const ReshardCosts reshards_;
  const Deadlines deadlines_;
  std::vector<Solution> solutions_;
  std::vector<uint64_t> signatures_;
  std::vector<ReducedGraph> reduced_;  // of named strategies: all blocks are equal
  std::optional<NamedCandidates> named_;
  std::vector<Entry> entries_;
  std::vector<FoundPlan> variations_;
  bool gave_up_ = false;  // on a forecast
  size_t plans_ = 0;      // entries that are no named strategies; they come first
  SearchOutcome outcome_;
};

}  // namespace

SearchOutcome search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                              const SearchOptions& options) {
  return Search(graph, mesh, costs, options).run();
}

}  // namespace hidup
