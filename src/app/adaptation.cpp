#include "app/adaptation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include "app/class_report.h"
#include "app/costs.h"
#include "app/planning.h"
#include "core/log.h"
#include "core/units.h"
#include "cost/forecast.h"
#include "deck/cluster_deck.h"
#include "deck/train_deck.h"
#include "search/memory_limit.h"
#include "search/new_shares.h"

namespace hidup {
namespace {

// Changes that gain less are not worth the measurement.
constexpr double kWorth = 0.98;

// Returns true where the programs have the same instructions, of which only the sizes differ. The
// rows of a timing file are those of one program.
bool are_alike(const Program& a, const Program& b) {
  return std::ranges::equal(a.instructions, b.instructions, {}, &Instruction::name,
                            &Instruction::name);
}

std::string in_percent(const std::vector<double>& parts) {
  std::vector<double> percents(parts.size());
  std::ranges::transform(parts, percents.begin(), [](double part) { return 100.0 * part; });
  return fmt::format("{:.1f} %", fmt::join(percents, ", "));
}

}  // namespace

void check_that_it_can_adapt(const Inputs& inputs, const MachineCosts& known) {
  const Deck& deck = inputs.deck();
  if (deck.train->adapt != "off" && !known.costs) {
    fail_for_missing_rate(deck, inputs.mesh,
                          "train.adapt rests on it, or on cluster.profile; or turn it off");
  }
}

Adaptation::Adaptation(const Inputs& inputs, const MachineCosts& known, const Strategy& strategy,
                       TimingFile* timings)
    : inputs_(inputs),
      known_(known),
      timings_(timings),
      strategy_(strategy),
      slower_(static_cast<size_t>(ranks_of(inputs.mesh)), 1.0) {}

void Adaptation::note_work(const Program& program) {
  work_ = parts_of_work(program);
}

void Adaptation::hear(const SlowNews& news, const WatchedPart& part) {
  if (part.computes()) {
    slower_.at(static_cast<size_t>(part.ranks.front())) = news.over ? 1.0 : 1.0 + news.slower_by;
    stale_ = true;
  }
}

void Adaptation::look(const Iteration& iteration) {
  if (const std::optional<Trial> trial = guard_.add(iteration.step, iteration.wall_s)) {
    end_trial(*trial);
  }
  if (stale_ && !planning_.valid() && !wanted_ && guard_.may_try(iteration.step)) {
    start_to_plan();
  }
  if (planning_.valid() && !wanted_ &&
      (inputs_.deck().cluster->emulates() ||
       planning_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)) {
    take_plan();
  }
}

void Adaptation::start_to_plan() {
  stale_ = false;
  planning_ = std::async(std::launch::async, [this, slower = slower_] { return plan(slower); });
}

std::optional<Adaptation::Planned> Adaptation::plan(const std::vector<double>& slower) const {
  const Deck& deck = inputs_.deck();
  const Graph& graph = inputs_.graph;
  if (strategy_.schedule) {
    return std::nullopt;
  }
  std::vector<double> paces = paces_of_ranks(deck, inputs_.mesh, *known_.costs);
  paces.resize(slower.size(), 1.0);  // unknown ones are alike
  std::ranges::transform(paces, slower, paces.begin(), std::divides<>());
  SearchOptions options = search_options(deck, graph, inputs_.mesh, "");
  limit_memory(options, known_.memory);
  const RankCosts costs = rank_costs(deck, inputs_.mesh, *known_.costs).slower(slower);
  const Forecast now = forecast(graph, strategy_, options.lowering, costs);
  const Strategy found = with_new_shares(graph, strategy_, with_paces(inputs_.mesh, paces),
                                         CostModel(*known_.costs), costs, options);
  const Forecast then = forecast(graph, found, options.lowering, costs, options.memory_of_ranks);
  const Candidate candidate{.memory_bytes = then.plan.bytes, .memory_rank = then.plan.rank};
  if (!are_alike(now.program, then.program) || !memory_obstacle(candidate, options).empty() ||
      then.seconds() > kWorth * now.seconds()) {
    return std::nullopt;
  }
  return Planned{then.strategy, now.seconds(), then.seconds()};
}

void Adaptation::take_plan() {
  std::optional<Planned> planned;
  try {
    planned = planning_.get();
  } catch (const std::exception& error) {  // the run can do without
    log::warning("adapt: no new shares are planned: {}", error.what());
    return;
  }
  if (!planned) {
    log::info("adapt: no other shares are predicted to be faster");
    return;
  }
  log::info("adapt: new shares are predicted to take {} per step instead of {}",
            format_seconds(planned->after_s), format_seconds(planned->before_s));
  wanted_ = {.strategy = std::move(planned->strategy)};
}

Strategy Adaptation::take(int64_t step) {
  guard_.changed(step, wanted_->trial);
  before_ = std::exchange(strategy_, std::move(wanted_->strategy));
  wanted_.reset();
  return strategy_;
}

void Adaptation::end_trial(const Trial& trial) {
  log::info(
      "adapt: since step {} the ranks compute {} of the work, and steps take {} instead of {}"
      ": these shares {}",
      trial.first, in_percent(work_), format_seconds(trial.after_s), format_seconds(trial.before_s),
      trial.kept ? "stay"
                 : fmt::format("are undone, and others tried after step {} at the "
                               "earliest",
                               guard_.waits_until()));
  if (timings_ != nullptr) {
    timings_->append_adapt({.step = trial.first,
                            .last = trial.last,
                            .before_s = trial.before_s,
                            .after_s = trial.after_s,
                            .spread_s = trial.spread_s,
                            .kept = trial.kept,
                            .shares = work_});
  }
  if (!trial.kept) {
    wanted_ = {.strategy = before_, .trial = false};
    stale_ = true;
  } else if (std::ranges::all_of(slower_, [](double factor) { return factor == 1.0; })) {
    guard_.wait(trial.last);  // ranks that flutter get no change every time
  }
}

}  // namespace hidup
