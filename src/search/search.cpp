#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "core/units.h"
#include "search/deadlines.h"
#include "search/dp/repeats.h"
#include "search/estimate/choose_routes.h"
#include "search/memory_limit.h"
#include "search/parallel.h"
#include "search/proposal.h"

namespace hidup {
namespace {

class Search {
 public:
  Search(const Graph& graph, const Mesh& mesh, const CostModel& costs, const SearchOptions& options,
         const RankCosts& ranks)
      : options_(options),
        reshards_(std::make_shared<const ReshardCosts>(mesh, costs)),
        deadlines_(deadlines_of(graph, mesh, options)),
        slowest_(ranks.slowest()),
        state_{.graph = graph, .mesh = mesh, .costs = costs, .ranks = ranks, .options = options} {}

  SearchResult run() {
    {
      const TimeLimit limit(deadlines_.all);
      if (!in_time([&] { propose(); })) {
        state_.timed_out = true;
        leave_out_unsimulated();
      }
    }
    forecast_the_fastest();
    state_.timed_out |= gave_up_ || deadlines_.all.has_passed();
    if (!has_feasible() && !(state_.timed_out && forecast_late()) && !try_last()) {
      return infeasible();
    }
    return outcome();
  }

 private:
  // A proposal and its results.
  struct Entry {
    Proposal proposal;
    Candidate candidate;
    std::optional<Forecast> step;  // only of the fastest forecast so far
  };

  // --- proposals ---

  void solve() {
    const ProblemSolver solver(state_.graph, state_.mesh, reshards_, options_, deadlines_.all);
    state_.solutions = solver.build();
    if (state_.solutions[0].built) {
      state_.signatures = signatures_of(state_.solutions[0].built->problem);
      state_.reduced = reduced_graphs_of(state_.graph, state_.signatures);
    }
    solver.solve(state_.solutions);
    needs_more_memory_ =
        !options_.memory_of_ranks.empty() && solver.memory_is_short(state_.solutions);
    {
      const TimeLimit rest_is_for_advice(deadlines_.proof);
      solver.add_choices_of_memory(state_.solutions);
    }
    // No bound holds for unequal ranks, so that a proof could only find another plan.
    if (!state_.has_classes() || options_.level == SearchLevel::thorough) {
      solver.certify(state_.solutions, deadlines_.proof);
    }
    state_.timed_out = deadlines_.proof.has_passed();
  }

  void propose() {
    solve();
    for (const Proposer& proposer : proposers()) {
      if (proposer.for_unequal_memory && needs_more_memory_) {
        const double left_s = deadlines_.all.seconds_left();
        const Deadline half = std::isinf(left_s) ? deadlines_.all : Deadline::in(0.5 * left_s);
        const TimeLimit rest_is_for_forecasts(half);
        in_time([&] {
          state_.of_more_memory =
              solve_for_more_memory(state_.graph, state_.mesh, reshards_, options_, half);
        });
      }
      const size_t first = entries_.size();
      for (Proposal& proposal : proposer.propose(state_)) {
        add(std::move(proposal));
      }
      simulate_from(first);
      if (proposer.worth) {
        const double most_s = *proposer.worth * state_.fastest_s();
        entries_.erase(
            std::remove_if(entries_.begin() + static_cast<std::ptrdiff_t>(first), entries_.end(),
                           [&](const auto& entry) { return entry->candidate.seconds > most_s; }),
            entries_.end());
      }
      note_the_fastest();
    }
  }

  Entry& add(Proposal proposal) {
    Entry& entry = *entries_.emplace_back(std::make_unique<Entry>());
    entry.proposal = std::move(proposal);
    entry.candidate = {.memory_bytes = entry.proposal.bytes,
                       .approximate = is_approximate(entry.proposal.parts),
                       .objective_s = entry.proposal.objective_s,
                       .by = entry.proposal.by};
    check_hints(entry);
    return entry;
  }

  bool is_approximate(const StrategyParts& parts) const {
    return !parts.parts.empty() && parts.parts[0].graph != &state_.graph;
  }

  void check_hints(Entry& entry) const {
    if (!options_.hints.empty()) {
      entry.candidate.reason = broken_hint(state_.graph, options_.hints, entry.proposal.make());
      entry.candidate.feasible = entry.candidate.reason.empty();
    }
  }

  void note_the_fastest() {
    state_.fastest.clear();
    for (const auto& entry : entries_) {
      if (entry->candidate.feasible) {
        state_.fastest.push_back({&entry->proposal, entry->candidate.seconds});
      }
    }
    std::ranges::stable_sort(state_.fastest, {}, &Simulated::seconds);
  }

  void simulate_from(size_t first) {
    in_parallel(entries_.size() - first, options_.threads, [&](size_t e) {
      Entry& entry = *entries_[first + e];
      if (entry.candidate.feasible && !in_time([&] { simulate(entry); })) {
        leave_out(entry);
      }
    });
  }

  // Returns true where the strategy has other parts along an axis than the hints have.
  bool has_shares(const Strategy& strategy) const {
    return !std::ranges::equal(strategy.mesh, state_.mesh, {}, &Axis::shares, &Axis::shares);
  }
  std::shared_ptr<const ReshardCosts> reshards_of(const Strategy& strategy) const {
    return has_shares(strategy) ? std::make_shared<const ReshardCosts>(strategy.mesh, state_.costs)
                                : reshards_;
  }

  // Plans memory too where no plan fits: then all candidates may need it.
  void simulate(Entry& entry) const {
    TimeLimit::check();
    Candidate& candidate = entry.candidate;
    const bool plans_memory =
        options_.memory_of_ranks.empty() && (options_.baselines || !has_plans(state_.solutions));
    StrategyParts& parts = entry.proposal.parts;
    const Strategy& first = parts.parts[0].strategy;
    // With equal parts all ranks wait for the slowest.
    const Prediction prediction =
        simulated(parts, *reshards_of(first), has_shares(first) ? state_.ranks : slowest_,
                  options_.lowering, plans_memory ? &candidate.memory_bytes : nullptr);
    candidate.seconds = prediction.iteration_s;
    candidate.busy = prediction.busy;
  }

  // Marks a candidate that was not simulated within the time limit.
  static void leave_out(Entry& entry) {
    entry.candidate.feasible = false;
    entry.candidate.reason = kNotInTime;
  }
  void leave_out_unsimulated() {
    for (const auto& entry : entries_) {
      if (entry->candidate.feasible && entry->candidate.seconds == 0.0) {
        leave_out(*entry);
      }
    }
  }

  // --- memory, and forecasts of the whole graph ---

  void plan_memory(Entry& entry) const {
    Candidate& candidate = entry.candidate;
    if (candidate.feasible && candidate.memory_bytes == 0) {
      note_bytes(entry);
    }
    check_memory(candidate);
  }

  void note_bytes(Entry& entry) const {
    const RankBytes tightest =
        tightest_bytes(entry.proposal.parts, options_.lowering, options_.memory_of_ranks);
    entry.candidate.memory_bytes = tightest.bytes;
    entry.candidate.memory_rank = tightest.rank;
  }

  void check_memory(Candidate& candidate) const {
    if (candidate.feasible) {
      candidate.reason = memory_obstacle(candidate, options_);
      candidate.feasible = candidate.reason.empty();
    }
  }

  bool has_feasible() const {
    return std::ranges::any_of(entries_,
                               [](const auto& entry) { return entry->candidate.feasible; });
  }

  void rank() {
    std::ranges::stable_sort(entries_, {}, [](const auto& entry) {
      return std::pair(!entry->candidate.feasible, entry->candidate.seconds);
    });
  }

  // Returns the number of passes over the graph: the microbatches of all groups.
  static int passes_of(const Entry& entry) {
    const Strategy& strategy = entry.proposal.parts.parts[0].strategy;
    return strategy.microbatches * strategy.accumulate;
  }

  // Returns true where the entry's forecast would end too late and the search has an alternative.
  bool is_too_late_for(const Entry& entry) {
    const bool ends_late = deadlines_.end.seconds_left() < deadlines_.forecast_s * passes_of(entry);
    if (forecast_entry() != nullptr) {
      return ends_late || deadlines_.all.has_passed();
    }
    return ends_late && std::ranges::any_of(entries_, [&](const auto& other) {
             return other->candidate.feasible && passes_of(*other) < passes_of(entry);
           });
  }

  // Times on reduced graphs are approximate. So this forecasts the first candidate on the whole
  // graph until the first candidate has a forecast.
  void forecast_the_fastest() {
    if (options_.baselines) {
      const TimeLimit limit(deadlines_.all);
      in_parallel(entries_.size(), options_.threads,
                  [&](size_t e) { in_time([&] { plan_memory(*entries_[e]); }); });
    }
    const auto unsure = [&] {
      rank();
      return !entries_.empty() && entries_[0]->candidate.feasible && !entries_[0]->step;
    };
    while (unsure()) {
      Entry& first = *entries_[0];
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

  // Returns the fastest forecast entry that fits; null without any.
  Entry* forecast_entry() {
    const auto found =
        std::ranges::find_if(entries_, [](const auto& entry) { return entry->step.has_value(); });
    return found == entries_.end() ? nullptr : found->get();
  }

  void forecast_step(Entry& entry) {
    Strategy strategy = entry.proposal.make();
    Program program =
        lower_by_costs(state_.graph, strategy, options_.lowering, *reshards_of(strategy));
    Forecast step =
        forecast(std::move(strategy), std::move(program), state_.ranks, options_.memory_of_ranks);
    Candidate& candidate = entry.candidate;
    candidate.seconds = step.seconds();
    candidate.busy = step.prediction.busy;
    candidate.memory_bytes = step.plan.bytes;
    candidate.memory_rank = step.plan.rank;
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

  // --- where no forecast fits ---

  // Forecasts the fastest candidate that has no forecast for lack of time and can still get one.
  // Returns false where no such candidate is left, or it does not fit.
  bool forecast_late() {
    Entry* const best = gave_up_ ? nullptr : best_late_entry();
    if (best == nullptr) {
      return false;
    }
    best->candidate.feasible = true;
    best->candidate.reason.clear();
    check_hints(*best);
    if (best->candidate.feasible) {
      forecast_step(*best);
    }
    return best->candidate.feasible;
  }

  Entry* best_late_entry() {
    const auto estimated_s = [](const Entry& entry) {
      const Candidate& candidate = entry.candidate;
      return candidate.seconds > 0.0 ? candidate.seconds : candidate.objective_s;
    };
    Entry* best = nullptr;
    for (const auto& entry : entries_) {
      const double forecast_s = deadlines_.forecast_s * passes_of(*entry);
      if (entry->candidate.reason == kNotInTime && estimated_s(*entry) > 0.0 &&
          forecast_s <= deadlines_.too_late.seconds_left() &&
          (best == nullptr || estimated_s(*entry) < estimated_s(*best))) {
        best = entry.get();
      }
    }
    return best;
  }

  // Tries strategies that the dynamic programming estimates as too large; they may still fit.
  bool try_last() {
    for (const Proposer& proposer : last_proposers()) {
      for (Proposal& proposal : proposer.propose(state_)) {
        Entry& entry = add(std::move(proposal));
        if (fits(entry)) {
          return true;
        }
      }
    }
    return false;
  }

  // Forecasts the strategy, unless its estimated bytes exceed the limit by more than their error.
  bool fits(Entry& entry) {
    StrategyParts& parts = entry.proposal.parts;
    Candidate& candidate = entry.candidate;
    if (parts.parts.empty()) {
      parts = parts_of(state_.graph, state_.reduced, entry.proposal.make());
      candidate.approximate = is_approximate(parts);
    }
    if (candidate.feasible && candidate.approximate && candidate.memory_bytes == 0) {
      note_bytes(entry);
    }
    Candidate least = candidate;
    least.memory_bytes = std::llround(static_cast<double>(candidate.memory_bytes) /
                                      (candidate.approximate ? kUncertainBytes : 1.0));
    if (!memory_obstacle(least, options_).empty()) {
      check_memory(candidate);
    }
    if (candidate.feasible) {
      forecast_step(entry);
    }
    return candidate.feasible;
  }

  // The last strategy tried needs the least memory.
  Infeasible infeasible() const {
    const Entry& last = *entries_.back();
    const auto& graphs = last.proposal.graphs;
    return {
        {.strategy = last.proposal.make(),
         .reduced = graphs && last.candidate.approximate ? *graphs : std::vector<ReducedGraph>(),
         .bytes = last.candidate.memory_bytes}};
  }

  // --- the outcome ---

  // Returns the strategy with routes and algorithms: its simulation's or, on reduced graphs, new.
  Strategy whole_strategy(const Entry& entry) const {
    if (!is_approximate(entry.proposal.parts) && entry.candidate.seconds > 0.0) {
      return entry.proposal.parts.parts[0].strategy;
    }
    Strategy strategy = entry.proposal.make();
    lower_by_costs(state_.graph, strategy, options_.lowering, *reshards_of(strategy));
    return strategy;
  }
  static Strategy label_of(const Entry& entry) {
    const Strategy& part = entry.proposal.parts.parts[0].strategy;
    return {.name = part.name,
            .mesh = part.mesh,
            .microbatches = part.microbatches,
            .accumulate = part.accumulate};
  }

  std::vector<Candidate> candidates(const Strategy& fastest) {
    const TimeLimit limit(deadlines_.end);
    std::vector<Candidate> candidates;
    for (const auto& entry : entries_) {
      Strategy& strategy = entry->candidate.strategy;
      const bool whole = (options_.baselines || !entry->candidate.approximate) &&
                         entry->candidate.reason != kNotInTime;
      if (candidates.empty()) {
        strategy = fastest;
      } else if (!whole || !in_time([&] { strategy = whole_strategy(*entry); })) {
        strategy = label_of(*entry);
      }
      candidates.push_back(std::move(entry->candidate));
    }
    return candidates;
  }

  SearchOutcome outcome() {
    rank();
    const Entry& taken = *entries_[0];
    SearchOutcome outcome{.step = *std::move(entries_[0]->step), .timed_out = state_.timed_out};
    const double objective_s = taken.candidate.objective_s;
    const double taken_s = objective_s > 0.0 ? objective_s : outcome.step.seconds();
    outcome.objective_s = least_objective(state_.solutions);
    if (outcome.objective_s == 0.0) {  // no plan fits by the estimated bytes
      outcome.objective_s = taken_s;
    } else if (outcome.timed_out) {  // the best plan may have no forecast
      outcome.objective_s = std::max(outcome.objective_s, taken_s);
    }
    // The problems are those of equal ranks.
    const bool bounded = taken.proposal.in_bound && !state_.has_classes();
    outcome.lower_bound_s = bounded ? lower_bound(state_.solutions) : 0.0;
    if (outcome.lower_bound_s > 0.0) {
      outcome.gap = outcome.objective_s / outcome.lower_bound_s - 1.0;
    }
    outcome.candidates = candidates(outcome.step.strategy);
    return outcome;
  }

  const SearchOptions& options_;
  const std::shared_ptr<const ReshardCosts> reshards_;
  const SearchDeadlines deadlines_;
  const RankCosts slowest_;  // as if all ranks were the slowest
  SearchState state_;
  std::vector<std::unique_ptr<Entry>> entries_;
  bool needs_more_memory_ = false;  // memory differs, and the least is short
  bool gave_up_ = false;            // a forecast ran past too_late
};

}  // namespace

SearchResult search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                             const SearchOptions& options, const RankCosts* ranks) {
  const RankCosts alike(costs);
  return Search(graph, mesh, costs, options, ranks != nullptr ? *ranks : alike).run();
}

}  // namespace hidup
