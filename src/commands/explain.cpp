// hidup explain: shows a strategy, the times of its step, and reasons why other strategies lose.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "app/class_report.h"
#include "app/costs.h"
#include "app/emulation.h"
#include "app/explain.h"
#include "app/pipeline_report.h"
#include "app/plan_report.h"
#include "app/run_search.h"
#include "app/what_if.h"
#include "commands/commands.h"
#include "core/check.h"
#include "core/name_pattern.h"
#include "core/results.h"
#include "core/text.h"
#include "core/units.h"
#include "graph/operation.h"
#include "program/work.h"

namespace hidup {
namespace {

std::string rules_of_op(const OpStrategy& op) {
  std::vector<std::string> names;
  for (const Rule& rule : op.rules) {
    names.push_back(to_string(rule));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string placements_of(const OpStrategy& op, size_t inputs) {
  std::string text;
  for (size_t i = 0; i < inputs; ++i) {
    text += print_layout(input_layout(op, i)) + " ";
  }
  return text + "-> " + print_layout(output_layout(op));
}

Json json_of(const PassTimes& times) {
  return {{"compute_s", times.compute_s},
          {"comm_s", times.comm_s},
          {"exposed_comm_s", times.exposed_s}};
}

Json memory_json(const MemoryPlan& plan) {
  return {{"parameters_bytes", plan.parameter_bytes},
          {"gradients_bytes", plan.gradient_bytes},
          {"optimizer_bytes", plan.optimizer_bytes},
          {"activations_bytes", plan.activation_bytes},
          {"inputs_and_results_bytes", plan.bytes - plan.parameter_bytes - plan.gradient_bytes -
                                           plan.optimizer_bytes - plan.activation_bytes}};
}

Json pipeline_json(const Graph& graph, const PipelineReport& report) {
  Json chunks = Json::array();
  for (const ChunkReport& chunk : report.chunks) {
    chunks.push_back({{"first_operation", graph.op_name(chunk.first)},
                      {"last_operation", graph.op_name(chunk.last)},
                      {"ranks", chunk.ranks},
                      {"flops_part", chunk.flops_part},
                      {"peak_bytes", chunk.peak_bytes}});
  }
  return {{"axis", report.axis},
          {"schedule", report.schedule},
          {"microbatches", report.microbatches},
          {"idle_part", report.idle},
          {"stages", chunks}};
}

Json classes_json(const std::vector<ClassReport>& classes) {
  Json json = Json::array();
  for (const ClassReport& report : classes) {
    json.push_back({{"ranks", format_numbers(report.ranks)},
                    {"rated_flops", report.flops},
                    {"flops_part", report.work_part},
                    {"compute_s", report.compute_s},
                    {"wait_s", report.wait_s},
                    {"peak_bytes", report.bytes},
                    {"memory_limit_bytes", report.limit_bytes}});
  }
  return json;
}

// Rows that differ only in times, which are added up.
struct Row {
  std::vector<std::string> texts;
  int count = 0;
  PassTimes times;
};

void add_row(std::vector<Row>& rows, std::vector<std::string> texts, const PassTimes& times) {
  auto row = std::ranges::find(rows, texts, &Row::texts);
  if (row == rows.end()) {
    row = rows.insert(row, {.texts = std::move(texts)});
  }
  ++row->count;
  row->times.compute_s += times.compute_s;
  row->times.comm_s += times.comm_s;
  row->times.exposed_s += times.exposed_s;
}

std::string seconds_or_nothing(double seconds) {
  return seconds > 0.0 ? format_seconds(seconds) : "-";
}

void print_rows(const std::string& title, const std::vector<Row>& rows, bool timed) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].texts.size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], row.texts[i].size());
    }
  }
  size_t width = 7;
  for (const size_t w : widths) {
    width += w + 2;
  }
  results::print("\n{:<{}}{}\n", title, width, timed ? "  compute  communication    exposed" : "");
  for (const Row& row : rows) {
    std::string line = fmt::format("{:>5}  ", fmt::format("{}x", row.count));
    for (size_t i = 0; i < widths.size(); ++i) {
      line += fmt::format("{:<{}}  ", row.texts[i], widths[i]);
    }
    if (timed) {
      line += fmt::format("{:>9} {:>14} {:>10}", seconds_or_nothing(row.times.compute_s),
                          seconds_or_nothing(row.times.comm_s),
                          seconds_or_nothing(row.times.exposed_s));
    }
    results::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

class Printout {
 public:
  Printout(const PlanningInput& input, const Forecast& step)
      : input_(input), step_(step), explanation_(explain_step(input.graph, step)) {}

  void print() const {
    std::vector<Row> rows;
    for (const StageReport& stage : explanation_.stages) {
      add_row(rows,
              {std::string(name_of(stage.phase)),
               stage.first < 0 ? "no operation of the model"
                               : pattern_of(input_.graph.op_name(stage.first))},
              stage.times);
    }
    for (const BucketReport& bucket : explanation_.buckets) {
      add_row(rows, {"", bucket.name}, bucket.times);
    }
    print_rows("stages (named by their first operation) and gradient buckets", rows, true);
    print_messages();
    rows.clear();
    for (const OperationReport& operation : explanation_.operations) {
      const OpStrategy& op = step_.strategy.ops[static_cast<size_t>(operation.op)];
      PassTimes both = operation.forward;
      both.compute_s += operation.backward.compute_s;
      both.comm_s += operation.backward.comm_s;
      both.exposed_s += operation.backward.exposed_s;
      add_row(rows,
              {pattern_of(input_.graph.op_name(operation.op)), rules_of_op(op),
               placements_of(op, input_.graph.op(operation.op).inputs.size())},
              both);
    }
    print_rows("operations, both passes: rule, placements", rows, true);
    rows.clear();
    for (const ParameterStrategy& parameter : step_.strategy.parameters) {
      add_row(rows,
              {pattern_of(input_.graph.tensor(parameter.tensor).name),
               print_layout(parameter.storage), print_layout(parameter.optimizer_state)},
              {});
    }
    print_rows("parameters: storage, optimizer state", rows, false);
  }

  Json json() const {
    Json operations = Json::array();
    for (const OperationReport& operation : explanation_.operations) {
      const OpStrategy& op = step_.strategy.ops[static_cast<size_t>(operation.op)];
      Json inputs = Json::array();
      for (size_t i = 0; i < input_.graph.op(operation.op).inputs.size(); ++i) {
        inputs.push_back(print_layout(input_layout(op, i)));
      }
      operations.push_back({{"op", input_.graph.op_name(operation.op)},
                            {"rule", rules_of_op(op)},
                            {"inputs", inputs},
                            {"output", print_layout(output_layout(op))},
                            {"forward", json_of(operation.forward)},
                            {"backward", json_of(operation.backward)}});
    }
    Json stages = Json::array();
    for (const StageReport& stage : explanation_.stages) {
      stages.push_back({{"phase", name_of(stage.phase)},
                        {"first", stage.first < 0 ? "" : input_.graph.op_name(stage.first)},
                        {"times", json_of(stage.times)}});
    }
    Json buckets = Json::array();
    for (const BucketReport& bucket : explanation_.buckets) {
      buckets.push_back({{"name", bucket.name}, {"times", json_of(bucket.times)}});
    }
    Json parameters = Json::array();
    for (const ParameterStrategy& parameter : step_.strategy.parameters) {
      parameters.push_back({{"name", input_.graph.tensor(parameter.tensor).name},
                            {"storage", print_layout(parameter.storage)},
                            {"optimizer_state", print_layout(parameter.optimizer_state)}});
    }
    return {{"stages", stages},
            {"buckets", buckets},
            {"operations", operations},
            {"parameters", parameters},
            {"timeline", timeline()}};
  }

 private:
  void print_messages() const {
    std::vector<Row> rows;
    for (const MessageReport& message : explanation_.messages) {
      std::string bytes;
      for (size_t axis = 0; axis < message.bytes.size(); ++axis) {
        if (message.bytes[axis] > 0.0) {
          bytes += fmt::format("{}{} {}", bytes.empty() ? "" : ", ", input_.mesh[axis].name,
                               format_bytes(static_cast<int64_t>(message.bytes[axis])));
        }
      }
      rows.push_back({.texts = {message.name, message.way, bytes},
                      .count = message.count,
                      .times = message.times});
    }
    print_rows("messages: along which axes, and how; bytes along each", rows, true);
  }

  // Returns the algorithm of each part of the collective; null if all are automatic.
  static Json algorithms(const Instruction& instruction) {
    Json names;
    for (const CollectiveAlgorithm algorithm : instruction.algorithms) {
      names.push_back(name_of(algorithm));
    }
    return names;
  }

  // Returns bytes per axis, outermost first; null for instructions that communicate nothing.
  Json bytes_along(const Instruction& instruction) const {
    Json along;
    if (!collective_of(instruction.opcode).empty()) {
      const MessageReport report = message_report(step_.program, instruction);
      for (size_t axis = 0; axis < report.bytes.size(); ++axis) {
        along[input_.mesh[axis].name] = report.bytes[axis];
      }
    }
    return along;
  }

  // Return null for an instruction that belongs to no operation, or to no single input of one.
  Json operation(const Instruction& instruction) const {
    return instruction.op < 0 ? Json() : Json(input_.graph.op_name(instruction.op));
  }
  Json input(const Instruction& instruction) const {
    if (instruction.op < 0 || instruction.input < 0) {
      return {};
    }
    const OperationSpec& spec = spec_of(input_.graph.op(instruction.op).kind);
    return spec.inputs[static_cast<size_t>(instruction.input)].name;
  }

  // Returns columns like those of /program and /timeline in a timing file, for the work of rank 0.
  Json timeline() const {
    Json events = Json::array();
    for (size_t i = 0; i < step_.program.instructions.size(); ++i) {
      const Instruction& instruction = step_.program.instructions[i];
      const Interval& ran = step_.prediction.instructions[i];
      const Work work = work_of(step_.program, instruction, 0);
      events.push_back({{"name", instruction.name},
                        {"operation", operation(instruction)},
                        {"input", input(instruction)},
                        {"stream", name_of(instruction.stream)},
                        {"microbatch", instruction.microbatch},
                        {"phase", name_of(instruction.phase)},
                        {"opcode", name_of(instruction.opcode)},
                        {"collective", collective_of(instruction.opcode)},
                        {"hierarchical", is_hierarchical(instruction)},
                        {"algorithms", algorithms(instruction)},
                        {"bytes_along", bytes_along(instruction)},
                        {"dtype", name_of(work.dtype)},
                        {"flops", work.flops},
                        {"bytes", work.bytes},
                        {"sizes", work.sizes},
                        {"start_s", ran.start_s},
                        {"end_s", ran.end_s}});
    }
    return events;
  }

  const PlanningInput& input_;
  const Forecast& step_;
  Explanation explanation_;
};

// A strategy's step, the candidates to compare it with, and the results of searches.
struct Explained {
  Forecast step;
  std::vector<Candidate> candidates;
  RepeatedWork repeated;
  std::optional<WhatIfReport> what_if;
};

// Searches only if the strategy is `search`, or for a what-if.
Explained explained(const ExplainOptions& options, const PlanningInput& input,
                    const Profile& profile, const RankCosts& all_costs) {
  Explained result;
  const SearchOptions search = search_options(input.deck, input.graph, input.mesh, options.hints);
  if (options.strategy == kSearch) {
    check_that_a_search_fits(input.deck);
    SearchOutcome found = search_for(input.deck, input.graph, input.mesh, profile, search);
    result.candidates = best_of_each_name(found, input, all_costs);
    result.step = std::move(found.step);
  } else {
    result.step =
        forecast(input.graph,
                 choose_strategy(options.strategy, input.deck, input.graph, input.mesh, profile),
                 search.lowering, all_costs, search.memory_of_ranks);
    result.candidates = beside_named({.strategy = result.step.strategy,
                                      .seconds = result.step.seconds(),
                                      .busy = result.step.prediction.busy,
                                      .memory_bytes = result.step.plan.bytes,
                                      .memory_rank = result.step.plan.rank},
                                     input, profile, search);
  }
  result.repeated = repeated_work(input.graph, result.step.strategy, all_costs, search.lowering,
                                  search.memory_limit);
  if (options.what_if) {
    const Mesh& mesh = search.hints.empty() ? input.mesh : search.hints.mesh;
    const CostModel balanced(balanced_costs(input.deck, mesh, profile));
    result.what_if = what_if(
        {input.graph, mesh, search, balanced, all_costs, costs_of_changes(input.deck, profile)});
  }
  return result;
}

}  // namespace

int explain(const ExplainOptions& options) {
  if (!options.measured.empty()) {
    return explain_measured(options);
  }
  if (options.deck.empty() || options.cluster.empty()) {
    fail(ExitCode::usage, "explain takes DECK and --cluster, or --measured; see --help");
  }
  check_strategy_choice(options.strategy);
  const PlanningInput input =
      read_planning_input(options.deck, options.cluster, options.overrides, options.ranks);
  const Profile profile = costs_without_ranks(input.deck, input.mesh);
  const RankCosts all_costs = rank_costs(input.deck, input.mesh, profile);
  const Explained found = explained(options, input, profile, all_costs);
  const Forecast& step = found.step;
  const Strategy& strategy = step.strategy;
  const Printout report(input, step);
  const std::optional<EmulatedForecast> emulated =
      forecast_emulated(input.deck, step.program, all_costs);
  const std::vector<ClassReport> classes = report_classes(input.deck, step, all_costs);
  const auto report_stages = [&] {
    return report_pipeline(input.graph, strategy, step.program,
                           StepCosts{all_costs, step.seconds()});
  };
  if (options.json) {
    Json json = plan_json(input, strategy, found.repeated);
    if (emulated) {
      json["emulated"] = {{"step_s", to_seconds(emulated->step)},
                          {"dependency_floor_s", to_seconds(emulated->floor)}};
    }
    json["memory"] = memory_json(step.plan);
    if (!classes.empty()) {
      json["classes"] = classes_json(classes);
    }
    if (strategy.schedule) {
      json["pipeline"] = pipeline_json(input.graph, report_stages());
    }
    json["candidates"] = candidates_json(found.candidates);
    if (found.what_if) {
      json["what_if_now_s"] = found.what_if->now_s;
      json["what_if"] = what_if_json(*found.what_if);
    }
    json.update(report.json());
    results::print("{}\n", json.dump(2));
    return 0;
  }
  const bool chosen = options.strategy == kSearch && options.hints.empty();
  print_plan(input, strategy, profile, describe(found.repeated, input.mesh, chosen));
  results::print("          {}\n", describe(step.plan));
  if (emulated) {
    results::print("emulated  {}; in any order of the instructions at least {}\n",
                   format_seconds(to_seconds(emulated->step)),
                   format_seconds(to_seconds(emulated->floor)));
  }
  if (strategy.schedule) {
    results::print("{}", describe(input.graph, report_stages()));
  }
  results::print("{}", describe(classes));
  report.print();
  results::print("\ncandidates\n");
  print_candidates(found.candidates);
  if (found.what_if) {
    results::print("\nwhat if: the best strategy then, as a search finds it\n");
    print_what_if(*found.what_if);
  }
  return 0;
}

}  // namespace hidup
