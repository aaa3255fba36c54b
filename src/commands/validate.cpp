#include <fmt/core.h>

#include "app/costs.h"
#include "app/pipeline_report.h"
#include "app/planning.h"
#include "commands/commands.h"
#include "core/check.h"
#include "core/new_file.h"
#include "core/results.h"
#include "core/units.h"
#include "deck/data_deck.h"
#include "deck/deck.h"
#include "io/output_path.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/verify.h"
#include "train/dataset.h"

namespace hidup {

namespace {

// Returns a line about the data for people. Missing data is no error: only training needs it.
std::string check_data(const Deck& deck) {
  std::string missing = first_missing(deck.data->path, "data.path");
  if (missing.empty()) {
    missing = first_missing(deck.data->validation.path, "data.validation");
  }
  return missing.empty() ? open_data(deck).description
                         : fmt::format("not looked at: {} is not there", missing);
}

}  // namespace

int validate(const ValidateOptions& options) {
  if (options.keys) {
    results::print("{}", reference_markdown());
    return 0;
  }
  if (options.deck.empty()) {
    fail(ExitCode::usage, "validate needs a model deck (or --keys)");
  }
  check_strategy_choice(options.strategy);
  const auto [deck, mesh, data, graph] =
      read_planning_input(options.deck, options.cluster, options.overrides, options.ranks);
  const std::string description = data.is_read ? data.description : check_data(deck);
  prepare_outputs(
      {{"--strategy-out", options.strategy_out}, {"--schedule-out", options.schedule_out}},
      files_read(options.deck, options.cluster, deck, options.strategy), options.overwrite);
  const Strategy strategy =
      choose_strategy(options.strategy, deck, graph, mesh, costs_of(deck, mesh, std::nullopt));
  const Program program = lower(graph, strategy, lowering_options(deck));
  for (const int64_t rank : distinct_ranks(program)) {
    verify(program, plan_memory(program, rank));
  }
  const MemoryPlan plan = largest_plan(program);
  const std::string schedule =
      options.schedule_out.empty() ? "" : schedule_csv(graph, strategy);  // may be refused
  if (!options.strategy_out.empty()) {
    write_text_file(options.strategy_out, print_strategy(graph, strategy), options.overwrite);
  }
  if (!options.schedule_out.empty()) {
    write_text_file(options.schedule_out, schedule, options.overwrite);
  }
  results::print("{}: valid\n", options.deck);
  if (!options.cluster.empty()) {
    results::print("{}: valid\n", options.cluster);
  }
  results::print("data    {}\n", description);
  results::print("model   {}, {} parameters, {} {}\n", graph.name(),
                 format_count(graph.parameter_count()),
                 deck.data->kind == "images" ? "classes" : "vocabulary", format_count(data.vocab));
  results::print("memory  {} ({} rank(s), strategy {})\n", describe(plan), ranks_of(mesh),
                 strategy.name);
  if (strategy.schedule) {
    results::print("{}", describe(graph, report_pipeline(graph, strategy, program, {})));
  }
  for (const std::string& file : {options.strategy_out, options.schedule_out}) {
    if (!file.empty()) {
      results::print("file    {}\n", file);
    }
  }
  return 0;
}

}  // namespace hidup
