// hidup evaluate: reports the loss, and for images the accuracy, of a model on data.validation.
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/execution.h"
#include "app/inputs.h"
#include "app/job.h"
#include "app/machine.h"
#include "app/plan.h"
#include "app/planning.h"
#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "core/log.h"
#include "core/results.h"
#include "core/units.h"
#include "deck/data_deck.h"
#include "train/evaluate.h"

namespace hidup {
namespace {

void check_options(const EvaluateOptions& options, const Deck& deck) {
  check_names(options.names);
  if (options.resume.empty() && options.init.empty()) {
    fail(ExitCode::usage, "evaluate needs a model: --resume CHECKPOINT or --init FILE");
  }
  if (deck.data->validation.empty()) {
    fail_at(deck, "data",
            "data.validation: there is nothing to evaluate on: give it files, or the part of "
            "the data that training left out, such as --set data.validation=0.1");
  }
  if (options.strategy == kSearch) {
    fail(ExitCode::usage, "--strategy: evaluate does not search; give a file or a name");
  }
  check_strategy_choice(options.strategy);
}

// Returns the origin of the parameters, for people.
std::string origin_of(const Inputs& inputs) {
  const std::optional<CheckpointFile>& checkpoint = inputs.files.checkpoint;
  return checkpoint ? fmt::format("{}, step {}", checkpoint->path(), checkpoint->state().step)
                    : inputs.initial->path();
}

MeanLoss evaluate(Execution& execution, MpiSession& mpi) {
  Evaluator& evaluator = *execution.evaluator();
  MeanLoss found;
  run_steps(
      mpi, "batch", [&] { return evaluator.current_batch(); }, execution.executor(),
      [&] {
        found = evaluator.run();
        if (!std::isfinite(found.loss)) {
          evaluator.fail_not_finite("");
        }
      });
  return found;
}

void print(const MeanLoss& found, bool images, bool as_json) {
  const double perplexity = std::exp(found.loss);
  if (as_json) {
    nlohmann::ordered_json json = {{"loss", found.loss}, {"perplexity", perplexity}};
    if (images) {
      json["accuracy"] = found.accuracy;
    }
    json[images ? "images" : "tokens"] = found.targets;
    results::print("{}\n", json.dump(2));
    return;
  }
  results::print("loss        {:.6f} nats per {}\n", found.loss, images ? "image" : "token");
  results::print("perplexity  {:.6g}\n", perplexity);
  if (images) {
    results::print("accuracy    {:.2f} %\n", 100.0 * found.accuracy);
  }
  results::print("{:<10}  {}\n", images ? "images" : "tokens", format_count(found.targets));
}

ExitCode run(const EvaluateOptions& options, MpiSession& mpi) {
  const Heartbeat::Guide guide = guide_of_start(mpi);
  const Inputs inputs =
      read_inputs({.deck = options.deck,
                   .cluster = options.cluster,
                   .overrides = options.overrides,
                   .init = options.init,
                   .names = options.names,
                   .files = {.resume = options.resume},
                   .check = [&](const Deck& deck) { check_options(options, deck); }},
                  mpi);
  Machine machine = open_machine(inputs, mpi);
  const RunPlan plan = make_plan(inputs, {}, options.strategy, "", mpi.world());
  Execution execution(inputs, machine, plan);
  log::info("model: {} of {}; strategy {}; {} rank(s), {} a rank", inputs.graph.name(),
            origin_of(inputs), plan.loaded.strategy.name, mpi.world().size(),
            format_bytes(plan.forward->memory.bytes));
  const MeanLoss found = evaluate(execution, mpi);
  if (mpi.world().rank() == 0) {
    print(found, inputs.deck().data->kind == "images", options.json);
  }
  return ExitCode::done;
}

}  // namespace

int evaluate(const EvaluateOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return run(options, mpi); });
}

}  // namespace hidup
