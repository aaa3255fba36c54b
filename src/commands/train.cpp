// hidup train: trains a model from two decks and writes a timing file.
#include <ctime>
#include <filesystem>
#include <optional>

#include "app/costs.h"
#include "app/emulation.h"
#include "app/execution.h"
#include "app/inputs.h"
#include "app/job.h"
#include "app/machine.h"
#include "app/pipeline_report.h"
#include "app/plan.h"
#include "app/planning.h"
#include "app/repeated_work.h"
#include "app/timing_header.h"
#include "comm/collective.h"
#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "core/log.h"
#include "core/units.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/device_classes.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/flops.h"
#include "train/checkpoints.h"
#include "train/report.h"
#include "train/stop.h"
#include "train/stragglers.h"
#include "train/trainer.h"

namespace hidup {
namespace {

std::string output_name(const TrainOptions& options) {
  if (!options.out.empty()) {
    return options.out;
  }
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char stamp[32] = "";
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &utc);
  return fmt::format("out/{}-{}.h5", std::filesystem::path(options.deck).stem().string(), stamp);
}

std::string describe(StopReason reason) {
  switch (reason) {
    case StopReason::signal:
      return "a signal";
    case StopReason::file:
      return "the file checkpoint_now";
    case StopReason::time:
      return "-t";
    case StopReason::none:
      break;
  }
  return "nothing";
}

void check_start(const TrainOptions& options) {
  check_names(options.names);
  const bool searches = options.strategy.empty() || options.strategy == kSearch;
  if (!options.hints.empty() && !searches) {
    fail(ExitCode::usage,
         "--hints and --strategy {}: hints restrict a search, and there is none; leave one of them "
         "out",
         options.strategy);
  }
  if (!options.init.empty() && !options.resume.empty() && options.resume != "auto") {
    fail(ExitCode::usage,
         "--init and --resume {}: the checkpoint has all parameters; with --resume auto, --init "
         "holds where there is none",
         options.resume);
  }
}

InputOptions input_options(const TrainOptions& options) {
  return {.deck = options.deck,
          .cluster = options.cluster,
          .overrides = options.overrides,
          .strategy = options.strategy,
          .hints = options.hints,
          .init = options.init,
          .names = options.names,
          .files = {.out = output_name(options),
                    .names_out = !options.out.empty(),
                    .gradients = options.dump_gradients,
                    .resume = options.resume,
                    .overwrite = options.overwrite},
          .check = [&](const Deck&) {
            check_strategy_choice(options.strategy);
            check_start(options);
          }};
}

// Prints the model, the plan and the prediction of a step.
void tell(const Inputs& inputs, const Machine& machine, const MachineCosts& known,
          const RunPlan& plan, int64_t bytes, bool has_hints) {
  const Graph& graph = inputs.graph;
  log::info("model: {}, {} parameters; strategy {}; {} rank(s) with {} thread(s) each, {} a rank",
            graph.name(), format_count(graph.parameter_count()), plan.loaded.strategy.name,
            machine.world.size(), machine.threads, format_bytes(bytes));
  if (!plan.prediction) {
    return;
  }
  log::info("predicted{}: {}", known.measured ? "" : " from " + known.costs->key.device,
            describe(*plan.prediction));
  const std::string repeated =
      describe(repeated_work(graph, plan.loaded.strategy,
                             rank_costs(inputs.deck(), inputs.mesh, *known.costs),
                             lowering_options(inputs.deck()), std::ranges::min(known.memory)),
               inputs.mesh, plan.loaded.search_s > 0.0 && !has_hints);
  if (!repeated.empty()) {
    log::info("repeated work: {}", repeated);
  }
}

// Returns nothing on ranks that report nothing.
std::optional<ScheduleIdle> idle_of(const Inputs& inputs, const Machine& machine,
                                    const MachineCosts& known, const RunPlan& plan) {
  const Strategy& strategy = plan.loaded.strategy;
  if (!strategy.schedule || machine.world.rank() != 0) {
    return std::nullopt;
  }
  const auto part = [&](const std::optional<StepCosts>& predicted) {
    return schedule_idle(inputs.graph, strategy, plan.training->program, predicted);
  };
  if (!plan.prediction) {
    return ScheduleIdle{strategy.schedule->name, part(std::nullopt)};
  }
  const RankCosts costs = rank_costs(inputs.deck(), inputs.mesh, *known.costs);
  return ScheduleIdle{strategy.schedule->name,
                      part(StepCosts{costs, plan.prediction->iteration_s})};
}

Report make_report(const Inputs& inputs, const Machine& machine, const MachineCosts& known,
                   const RunPlan& plan) {
  const Deck& deck = inputs.deck();
  const bool images = deck.data->kind == "images";
  std::optional<EmulationScale> scale;
  if (plan.durations) {
    scale = emulation_scale(deck, plan.training->program, plan.prediction, machine);
  }
  return {deck.train->steps,
          {.count = deck.train->batch * (images ? 1 : deck.model->sequence), .images = images},
          inputs.data.unigram_entropy,
          {.model = model_flops(inputs.graph), .peak = rated_flops(deck, machine.world.size())},
          scale,
          idle_of(inputs, machine, known, plan)};
}

// Runs the remaining steps, unless something stops them.
ExitCode train_on(const TrainOptions& options, const Inputs& inputs, const Machine& machine,
                  const MachineCosts& known, const RunPlan& plan, Execution& execution,
                  MpiSession& mpi) {
  const Deck& deck = inputs.deck();
  const RunFiles& files = inputs.files;
  Communicator& world = machine.world;
  const bool first = world.rank() == 0;
  const TimingHeader header =
      timing_header(options.deck, options.command_line, inputs, machine, plan);
  std::optional<TimingFile> timings;
  collectively(world, [&] {
    if (first) {
      timings.emplace(files.out, options.overwrite, header);
      remove_old_checkpoints(files);
    }
  });
  TimingFile* rows = first ? &*timings : nullptr;
  Checkpoints checkpoints(
      deck,
      {.folder = files.checkpoints, .run = files.run, .lock = files.lock.get(), .timings = rows},
      initial_state(inputs, header), execution.executor(), world);
  Report report = make_report(inputs, machine, known, plan);
  StopWatch watch({.folder = std::filesystem::path(files.out).parent_path().string(),
                   .began = options.began,
                   .limit_s = options.wall_time_s});
  std::optional<RankCosts> costs;
  if (known.costs) {
    costs = rank_costs(deck, inputs.mesh, *known.costs);
  }
  std::optional<Stragglers> stragglers;
  if (world.size() > 1) {
    stragglers.emplace(plan.training->program, world,
                       WatchedCluster{.hosts = header.run.hostnames,
                                      .devices = alike_devices(*deck.cluster, world.size()),
                                      .costs = costs ? &*costs : nullptr},
                       rows);
  }
  Trainer trainer(deck, *inputs.data.batches, execution.executor(), world, execution.start(),
                  {.timings = rows,
                   .report = first ? &report : nullptr,
                   .stop_watch = first ? &watch : nullptr,
                   .checkpoints = &checkpoints,
                   .stragglers = stragglers ? &*stragglers : nullptr,
                   .gradients = options.dump_gradients,
                   .overwrite = options.overwrite,
                   .validation = execution.evaluator()});
  if (files.checkpoint) {
    trainer.resume(*files.checkpoint);
  }
  StopReason stopped = StopReason::none;
  run_steps(
      mpi, "step", [&] { return trainer.current_step(); }, execution.executor(),
      [&] {
        stopped = trainer.run();
        if (timings) {
          timings->close();
        }
      });
  if (first) {
    report.summary(plan.training->memory, plan.prediction, plan.floor, files.out,
                   checkpoints.last_file());
  }
  if (stopped != StopReason::none && trainer.current_step() < deck.train->steps) {
    log::info("stopped by {} after step {} of {}; --resume auto goes on from there",
              describe(stopped), trainer.current_step(), deck.train->steps);
    return ExitCode::stopped;
  }
  return ExitCode::done;
}

ExitCode run(const TrainOptions& options, MpiSession& mpi) {
  const Heartbeat::Guide guide = guide_of_start(mpi);
  const Inputs inputs = read_inputs(input_options(options), mpi);
  if (inputs.files.steps_done() >= inputs.deck().train->steps) {
    log::info("{} has all {} steps; with a larger train.steps there would be more to do",
              inputs.files.checkpoint->path(), inputs.deck().train->steps);
    return ExitCode::done;
  }
  Machine machine = open_machine(inputs, mpi);
  const MachineCosts known = costs_of_machine(inputs, machine);
  const RunPlan plan = make_plan(inputs, known, options.strategy, options.hints, mpi.world());
  Execution execution(inputs, machine, plan);
  tell(inputs, machine, known, plan, execution.bytes(), !options.hints.empty());
  return train_on(options, inputs, machine, known, plan, execution, mpi);
}

}  // namespace

int train(const TrainOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return run(options, mpi); });
}

}  // namespace hidup
