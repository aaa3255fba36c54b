#include "app/plan_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "app/costs.h"
#include "app/explain.h"
#include "core/results.h"
#include "core/units.h"
#include "deck/model_deck.h"
#include "graph/flops.h"
#include "train/report.h"

namespace hidup {

namespace {

// Returns the model's flops of a step over the flops that all ranks are rated at in the predicted
// time; none where the deck gives no rates.
std::optional<double> predicted_utilization(const PlanningInput& input, const PredictedStep& step) {
  const double rated = rated_flops(input.deck, ranks_of(input.mesh));
  return rated > 0.0 ? std::optional(model_flops(input.graph) / (rated * step.iteration_s))
                     : std::nullopt;
}

}  // namespace

void print_plan(const PlanningInput& input, const Strategy& strategy, const Profile& costs,
                const std::string& repeated) {
  const PredictedStep& step = strategy.predicted.value();
  results::print("model     {}, {} parameters, on {} rank(s)\n", input.graph.name(),
                 format_count(input.graph.parameter_count()), ranks_of(input.mesh));
  results::print("data      {}\n", input.data.description);
  results::print("strategy  {}, {} microbatch(es){}\n", strategy.name, strategy.microbatches,
                 strategy.accumulate > 1
                     ? fmt::format(", accumulated over {} groups", strategy.accumulate)
                     : "");
  results::print("costs     {}{}\n", costs.key.build.empty() ? "" : "measured on ",
                 costs.key.device);
  results::print("predicted {}\n",
                 describe({.iteration_s = step.iteration_s,
                           .busy = {step.compute_s, step.comm_s, step.exposed_comm_s}}));
  if (const std::optional<double> utilization = predicted_utilization(input, step)) {
    results::print("flops     {:.1f} % of the rated {:.4g} TFLOPS of a rank\n",
                   100.0 * *utilization,
                   1e-12 * rated_flops(input.deck, ranks_of(input.mesh)) /
                       static_cast<double>(ranks_of(input.mesh)));
  }
  results::print("memory    {} per rank\n", format_bytes(step.peak_bytes));
  if (!repeated.empty()) {
    results::print("repeated  {}\n", repeated);
  }
}

namespace {

// Returns text such as "+12.3 %" or "15.0 times".
std::string compared(double seconds, double best) {
  const double ratio = seconds / best;
  return ratio < 2.0 ? fmt::format("{:+.1f} %", 100.0 * (ratio - 1.0))
                     : fmt::format("{:.1f} times", ratio);
}

// A reason for at least this many candidates is printed once, with their number.
constexpr size_t kMany = 4;

// Returns text such as "41 strategies, such as dp and zero1".
std::string such_as(const std::vector<std::string_view>& names) {
  return fmt::format("{} strategies, such as {} and {}", names.size(), names[0], names[1]);
}

// The names of the candidates that each reason rules out.
using NamesByReason = std::map<std::string_view, std::vector<std::string_view>>;

NamesByReason ruled_out(const std::vector<Candidate>& candidates) {
  NamesByReason names;
  for (const Candidate& candidate : candidates) {
    if (!candidate.feasible) {
      names[candidate.reason].push_back(candidate.strategy.name);
    }
  }
  return names;
}

}  // namespace

void print_candidates(const std::vector<Candidate>& candidates) {
  NamesByReason names = ruled_out(candidates);
  std::vector<std::string> labels;
  size_t width = 30;
  for (const Candidate& candidate : candidates) {
    labels.push_back(fmt::format("{}, {} microbatch(es)", candidate.strategy.name,
                                 candidate.strategy.microbatches));
    width = std::max(width, labels.back().size());
  }
  for (size_t c = 0; c < candidates.size(); ++c) {
    const Candidate& candidate = candidates[c];
    const Candidate& best = candidates.front();
    const std::string label = fmt::format("  {:<{}}", labels[c], width);
    if (!candidate.feasible) {
      std::vector<std::string_view>& alike = names[candidate.reason];
      if (alike.size() >= kMany) {
        results::print("  {:<{}} {}\n", such_as(alike), width, candidate.reason);
        alike = {};
      } else if (!alike.empty()) {
        results::print("{} {}\n", label, candidate.reason);
      }
    } else if (candidate.seconds <= best.seconds) {
      results::print("{} {:>9}\n", label, format_seconds(candidate.seconds));
    } else {
      results::print("{} {:>9}  {}: {}\n", label, format_seconds(candidate.seconds),
                     compared(candidate.seconds, best.seconds), why_slower(candidate, best));
    }
  }
}

namespace {

// Returns text such as "12 % faster", or that a bound rules out any gain.
std::string gained(const WhatIf& change) {
  constexpr double kSame = 0.005;  // below the errors of predictions
  if (change.gain >= kSame) {
    return fmt::format("{:.0f} % faster", std::max(100.0 * change.gain, 1.0));
  }
  if (change.gain <= -kSame) {
    return fmt::format("{:.0f} % slower", std::max(-100.0 * change.gain, 1.0));
  }
  return change.at_most < 2.0 * kSame ? "the same, whatever the strategy" : "the same";
}

}  // namespace

void print_what_if(const WhatIfReport& report) {
  size_t width = 30;
  for (const WhatIf& change : report.changes) {
    width = std::max(width, change.what.size());
  }
  results::print("  {:<{}} {:>9}\n", "as it is", width, format_seconds(report.now_s));
  for (const WhatIf& change : report.changes) {
    if (change.feasible) {
      results::print("  {:<{}} {:>9}  {}\n", change.what, width, format_seconds(change.seconds),
                     gained(change));
    } else {
      results::print("  {:<{}} {}\n", change.what, width, change.reason);
    }
  }
}

Json plan_json(const PlanningInput& input, const Strategy& strategy, const RepeatedWork& repeated) {
  const PredictedStep& step = strategy.predicted.value();
  const std::optional<double> utilization = predicted_utilization(input, step);
  return {{"model", input.graph.name()},
          {"strategy", strategy.name},
          {"strategy_hash", fmt::format("{:016x}", strategy_hash(input.graph, strategy))},
          {"data", input.data.description},
          {"predicted_iteration_s", step.iteration_s},
          {"predicted_compute_s", step.compute_s},
          {"predicted_comm_s", step.comm_s},
          {"predicted_exposed_comm_s", step.exposed_comm_s},
          {"predicted_model_flops_utilization", utilization ? Json(*utilization) : Json()},
          {"predicted_peak_bytes", step.peak_bytes},
          {"layers", input.deck.model->layers},
          {"ranks", ranks_of(input.mesh)},
          {"useful_ranks", repeated.useful_ranks},
          {"microbatches", strategy.microbatches}};
}

Json candidates_json(const std::vector<Candidate>& candidates) {
  Json json = Json::object();
  for (const Candidate& candidate : candidates) {
    json[candidate.strategy.name] = {{"feasible", candidate.feasible},
                                     {"reason", candidate.feasible && &candidate != &candidates[0]
                                                    ? why_slower(candidate, candidates[0])
                                                    : candidate.reason},
                                     {"microbatches", candidate.strategy.microbatches},
                                     {"predicted_iteration_s", candidate.seconds},
                                     {"predicted_compute_s", candidate.busy.compute_s},
                                     {"predicted_comm_s", candidate.busy.comm_s},
                                     {"predicted_exposed_comm_s", candidate.busy.exposed_comm_s},
                                     {"predicted_peak_bytes", candidate.memory_bytes}};
  }
  return json;
}

Json proposers_json(const std::vector<Candidate>& candidates) {
  Json json = Json::object();
  for (const Candidate& candidate : candidates) {
    Json& proposer =
        json.emplace(candidate.by, Json{{"proposed", 0}, {"won", false}}).first.value();
    proposer["proposed"] = proposer["proposed"].get<int>() + 1;
  }
  json[candidates.at(0).by]["won"] = true;
  return json;
}

Json what_if_json(const WhatIfReport& report) {
  Json json = Json::array();
  for (const WhatIf& change : report.changes) {
    json.push_back({{"what", change.what},
                    {"kind", change.kind},
                    {"of", change.of},
                    {"feasible", change.feasible},
                    {"reason", change.reason},
                    {"predicted_iteration_s", change.seconds},
                    {"gain", change.gain},
                    {"gain_at_most", change.at_most}});
  }
  return json;
}

}  // namespace hidup
