#include "app/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "app/costs.h"
#include "core/deadline.h"
#include "core/name_pattern.h"
#include "core/units.h"
#include "program/message_parts.h"
#include "search/estimate/choose_routes.h"
#include "search/memory_limit.h"
#include "search/named/named_strategies.h"
#include "search/parallel.h"

namespace hidup {
namespace {

void add(PassTimes& times, const Instruction& instruction, const Interval& ran, double exposed_s) {
  const double seconds = ran.end_s - ran.start_s;
  (instruction.stream == StreamKind::compute ? times.compute_s : times.comm_s) += seconds;
  times.exposed_s += exposed_s;
}

// Names work of no single operation, such as "gradients all_reduce".
std::string bucket_name(const Instruction& instruction) {
  const char* of = instruction.bucket < 0 ? "gradient_norm"
                   : instruction.phase == Phase::backward && !instruction.recomputed ? "gradients"
                                                                                     : "parameters";
  return fmt::format("{} {}", of, name_of(instruction.opcode));
}

void add_message(std::vector<MessageReport>& messages, MessageReport one) {
  const auto known = std::ranges::find_if(messages, [&](const MessageReport& other) {
    return other.name == one.name && other.way == one.way;
  });
  if (known == messages.end()) {
    messages.push_back(std::move(one));
    return;
  }
  for (size_t axis = 0; axis < one.bytes.size(); ++axis) {
    known->bytes[axis] += one.bytes[axis];
  }
  ++known->count;
  known->times.comm_s += one.times.comm_s;
  known->times.exposed_s += one.times.exposed_s;
}

}  // namespace

MessageReport message_report(const Program& program, const Instruction& collective) {
  const auto axis = static_cast<size_t>(collective.axis);
  MessageReport report{
      .name = pattern_of(collective.name),
      .way = fmt::format("{} {}", name_of(collective.opcode),
                         axes_text(program.mesh, axis, collective.inner_axes, collective.flat)),
      .bytes = std::vector<double>(program.mesh.size(), 0.0),
      .count = 1};
  report.way += is_hierarchical(collective) ? ", hierarchical" : collective.flat ? ", flat" : "";
  report.way += collective.sent_as ? fmt::format(", in {}", name_of(*collective.sent_as)) : "";
  report.way +=
      collective.algorithms.empty() ? "" : fmt::format(", by {}", names_of(collective.algorithms));
  const double bytes = paced_bytes(program, collective, 0);
  bool counted = false;  // along its axis, where an all-reduce that rounds sends twice
  for (const MessagePart& part : message_parts(program.mesh, collective, bytes)) {
    if (part.axis != axis || !std::exchange(counted, true)) {
      report.bytes[part.axis] += part.times * part.bytes;
    }
  }
  return report;
}

Explanation explain_step(const Graph& graph, const Forecast& step) {
  const std::vector<Interval>& times = step.prediction.instructions;
  const std::vector<double> exposed = exposed_times(step.program, times);
  Explanation result;
  result.operations.resize(graph.ops().size());
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    result.operations[static_cast<size_t>(id)].op = id;
  }
  std::map<std::pair<Phase, int>, size_t> stages;
  for (size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = step.program.instructions[i];
    const OpId op = instruction.op;
    if (!collective_of(instruction.opcode).empty()) {
      MessageReport message = message_report(step.program, instruction);
      add(message.times, instruction, times[i], exposed[i]);
      add_message(result.messages, std::move(message));
    }
    if (instruction.phase != Phase::update && instruction.microbatch >= 0) {
      const auto [at, added] =
          stages.try_emplace({instruction.phase, instruction.stage}, result.stages.size());
      if (added) {
        result.stages.push_back({.phase = instruction.phase});
      }
      StageReport& stage = result.stages[at->second];
      if (stage.first < 0 && !is_reshard(instruction.opcode)) {
        stage.first = op;
      }
      add(stage.times, instruction, times[i], exposed[i]);
    }
    if (op >= 0) {
      OperationReport& operation = result.operations[static_cast<size_t>(op)];
      add(instruction.phase == Phase::forward ? operation.forward : operation.backward, instruction,
          times[i], exposed[i]);
      continue;
    }
    const std::string name = bucket_name(instruction);
    auto bucket = std::ranges::find(result.buckets, name, &BucketReport::name);
    if (bucket == result.buckets.end()) {
      bucket = result.buckets.insert(bucket, {.name = name});
    }
    add(bucket->times, instruction, times[i], exposed[i]);
  }
  return result;
}

std::string why_slower(const Candidate& loser, const Candidate& best) {
  const double compute = loser.busy.compute_s - best.busy.compute_s;
  const double exposed = loser.busy.exposed_comm_s - best.busy.exposed_comm_s;
  const double comm = loser.busy.comm_s - best.busy.comm_s;
  std::vector<std::string> reasons;
  if (exposed > 0.0 && exposed >= 0.2 * compute) {
    reasons.push_back(fmt::format("{} more exposed communication ({} {})", format_seconds(exposed),
                                  format_seconds(std::abs(comm)),
                                  comm >= 0.0 ? "more in all" : "less in all"));
  }
  if (compute > 0.0 && compute >= 0.2 * exposed) {
    reasons.push_back(fmt::format("{} more computation", format_seconds(compute)));
  }
  if (reasons.empty()) {
    return "streams wait for each other longer";
  }
  return fmt::format("{}", fmt::join(reasons, ", "));
}

namespace {

void take_from(const Forecast& step, Candidate& candidate) {
  candidate.seconds = step.seconds();
  candidate.busy = step.prediction.busy;
  candidate.memory_bytes = step.plan.bytes;
  candidate.memory_rank = step.plan.rank;
}

void predict(Candidate& candidate, const PlanningInput& input, const RankCosts& costs,
             const RankLimits& limits = {}) {
  take_from(forecast(input.graph, candidate.strategy, lowering_options(input.deck), costs, limits),
            candidate);
}

void predict_in_time(Candidate& candidate, const PlanningInput& input, const RankCosts& costs) {
  if (!in_time([&] { predict(candidate, input, costs); })) {
    candidate.feasible = false;
    candidate.reason = kNotInTime;
  }
}

void rank(std::vector<Candidate>& candidates) {
  std::ranges::stable_sort(candidates, {}, [](const Candidate& candidate) {
    return std::pair(!candidate.feasible, candidate.seconds);
  });
}

}  // namespace

std::vector<Candidate> best_of_each_name(const SearchOutcome& found, const PlanningInput& input,
                                         const RankCosts& costs) {
  std::vector<Candidate> best;
  const auto known = [&](std::string_view name) {
    return std::ranges::any_of(best, [&](const Candidate& c) { return c.strategy.name == name; });
  };
  for (const Candidate& candidate : found.candidates) {  // fastest first
    if (known(candidate.strategy.name)) {
      continue;
    }
    const bool is_first = best.empty();
    best.push_back(candidate);
    const bool whole = !candidate.strategy.ops.empty();
    if (is_first) {
      take_from(found.step, best.back());
    } else if (!costs.all_alike() && whole && candidate.seconds > 0.0) {
      predict_in_time(best.back(), input, costs);
    }
  }
  for (const std::string_view name : plain_names(input.graph, input.mesh)) {
    if (known(name)) {
      continue;
    }
    Candidate candidate{.strategy = named_strategy(name, input.graph, input.mesh)};
    candidate.strategy.microbatches = found.step.strategy.microbatches;
    predict_in_time(candidate, input, costs);
    best.push_back(std::move(candidate));
  }
  rank(best);
  return best;
}

std::vector<Candidate> beside_named(const Candidate& explained, const PlanningInput& input,
                                    const Profile& costs, const SearchOptions& options) {
  std::vector<Candidate> candidates = {explained};
  for (const std::string_view name : plain_names(input.graph, input.mesh)) {
    if (name != explained.strategy.name) {
      candidates.push_back({.strategy = named_strategy(name, input.graph, input.mesh)});
      candidates.back().strategy.microbatches = explained.strategy.microbatches;
    }
  }
  const RankCosts all_costs = rank_costs(input.deck, input.mesh, costs);
  in_parallel(candidates.size() - 1, options.threads, [&](size_t c) {
    Candidate& candidate = candidates[c + 1];
    candidate.reason = broken_hint(input.graph, options.hints, candidate.strategy);
    if (candidate.reason.empty()) {
      candidate.strategy = with_routes(input.graph, std::move(candidate.strategy), options.lowering,
                                       CostModel(costs));
      predict(candidate, input, all_costs, options.memory_of_ranks);
      candidate.reason = memory_obstacle(candidate, options);
    }
    candidate.feasible = candidate.reason.empty();
  });
  rank(candidates);
  return candidates;
}

}  // namespace hidup
