// hidup train: trains a model from two decks and writes a timing file.
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "app/adaptation.h"
#include "app/costs.h"
#include "app/emulation.h"
#include "app/execution.h"
#include "app/expert_loads.h"
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
    case StopReason::change:
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
          idle_of(inputs, machine, known, plan),
          expected_of_experts(deck)};
}

// A training from its first plan to its last step. Every plan has an execution of its own; the
// outputs and the helpers of the run stay.
class Training {
 public:
  // Collective, as all functions here.
  Training(const TrainOptions& options, const Inputs& inputs, Machine& machine,
           const MachineCosts& known, std::unique_ptr<RunPlan> plan)
      : options_(options),
        inputs_(inputs),
        machine_(machine),
        known_(known),
        plan_(std::move(plan)),
        execution_(std::in_place, inputs, machine, *plan_),
        report_(make_report(inputs, machine, known, *plan_)),
        memory_(plan_->training->memory),
        prediction_(plan_->prediction),
        floor_(plan_->floor),
        watch_({.folder = std::filesystem::path(inputs.files.out).parent_path().string(),
                .began = options.began,
                .limit_s = options.wall_time_s}) {
    tell(inputs, machine, known, *plan_, execution_->bytes(), !options.hints.empty());
    open_outputs();
  }

  ExitCode run(MpiSession& mpi) {
    run_plan(mpi);
    while (goes_on_) {
      change_plan();
      run_plan(mpi);
    }
    const int64_t steps = inputs_.deck().train->steps;
    if (is_first()) {
      report_.summary(memory_, prediction_, floor_, inputs_.files.out, checkpoints_->last_file());
    }
    if (stopped_ != StopReason::none && step_ < steps) {
      log::info("stopped by {} after step {} of {}; --resume auto goes on from there",
                describe(stopped_), step_, steps);
      return ExitCode::stopped;
    }
    return ExitCode::done;
  }

 private:
  bool is_first() const { return machine_.world.rank() == 0; }

  void open_outputs() {
    const Deck& deck = inputs_.deck();
    const RunFiles& files = inputs_.files;
    Communicator& world = machine_.world;
    const TimingHeader header =
        timing_header(options_.deck, options_.command_line, inputs_, machine_, *plan_);
    collectively(world, [&] {
      if (is_first()) {
        timings_.emplace(files.out, options_.overwrite, header);
        remove_old_checkpoints(files);
      }
    });
    TimingFile* rows = timings_ ? &*timings_ : nullptr;
    checkpoints_.emplace(deck,
                         CheckpointPlace{.folder = files.checkpoints,
                                         .run = files.run,
                                         .lock = files.lock.get(),
                                         .timings = rows},
                         initial_state(inputs_, header), execution_->executor(), world);
    if (is_first() && deck.train->adapt != "off") {
      adaptation_.emplace(inputs_, known_, plan_->loaded.strategy, rows);
    }
    if (known_.costs) {
      costs_ = rank_costs(deck, inputs_.mesh, *known_.costs);
    }
    if (world.size() > 1) {
      stragglers_.emplace(world,
                          WatchedCluster{.hosts = header.run.hostnames,
                                         .devices = alike_devices(*deck.cluster, world.size()),
                                         .costs = costs_ ? &*costs_ : nullptr},
                          rows, [this](const SlowNews& news, const WatchedPart& part) {
                            if (adaptation_) {
                              adaptation_->hear(news, part);
                            }
                          });
      stragglers_->watch(plan_->training->program);
    }
  }

  TrainingOutputs outputs() {
    return {.timings = timings_ ? &*timings_ : nullptr,
            .report = is_first() ? &report_ : nullptr,
            .stop_watch = is_first() ? &watch_ : nullptr,
            .checkpoints = &*checkpoints_,
            .stragglers = stragglers_ ? &*stragglers_ : nullptr,
            .gradients = options_.dump_gradients,
            .overwrite = options_.overwrite,
            .on_step =
                [this](const Iteration& iteration) {
                  if (adaptation_) {
                    adaptation_->look(iteration);
                  }
                },
            .wants_change = [this] { return adaptation_ && adaptation_->wants_change(); },
            .validation = execution_->evaluator()};
  }

  // Runs the remaining steps, unless something stops them.
  void run_plan(MpiSession& mpi) {
    const Deck& deck = inputs_.deck();
    Executor& executor = execution_->executor();
    Trainer trainer(deck, *inputs_.data.batches, executor, machine_.world, execution_->start(),
                    outputs());
    if (state_) {
      trainer.go_on_after(step_, *state_);
    } else if (inputs_.files.checkpoint) {
      trainer.resume(*inputs_.files.checkpoint);
    }
    run_steps(
        mpi, "step", [&] { return trainer.current_step(); }, executor,
        [&] {
          stopped_ = trainer.run();
          step_ = trainer.current_step();
          goes_on_ = stopped_ == StopReason::change && step_ < deck.train->steps;
          if (timings_ && !goes_on_) {
            timings_->close();
          }
        });
    state_ = trainer.state();
  }

  // Moves the run to the strategy that rank 0 wants.
  void change_plan() {
    const double began = monotonic_seconds();
    auto next = std::make_unique<RunPlan>(make_plan(
        inputs_, known_, [this] { return LoadedStrategy{adaptation_->take(step_)}; },
        machine_.world));
    const Handover before = execution_->hand_over(machine_.world);
    execution_.reset();  // its memory is that of the next one
    plan_ = std::move(next);
    execution_.emplace(inputs_, machine_, *plan_, &before);
    checkpoints_->go_on_with(execution_->executor());
    if (stragglers_) {
      stragglers_->watch(plan_->training->program);
    }
    if (adaptation_) {
      adaptation_->note_work(plan_->training->program);
      log::info("adapt: the change after step {} took {}", step_,
                format_seconds(monotonic_seconds() - began));
    }
  }

  const TrainOptions& options_;
  const Inputs& inputs_;
  Machine& machine_;
  const MachineCosts& known_;
  std::unique_ptr<RunPlan> plan_;
  std::optional<Execution> execution_;
  Report report_;
  MemoryPlan memory_;  // of the first plan, as the next two: the summary compares with these
  std::optional<Prediction> prediction_;
  std::optional<StepFloor> floor_;
  StopWatch watch_;
  std::optional<TimingFile> timings_;  // on rank 0
  std::optional<Checkpoints> checkpoints_;
  std::optional<Adaptation> adaptation_;  // on rank 0
  std::optional<RankCosts> costs_;
  std::optional<Stragglers> stragglers_;
  StopReason stopped_ = StopReason::none;
  bool goes_on_ = false;                     // with another plan
  int64_t step_ = 0;                         // the last one of the last plan
  std::optional<kernels::StepState> state_;  // after it
};

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
  collectively(mpi.world(), [&] { check_that_it_can_adapt(inputs, known); });
  auto plan = std::make_unique<RunPlan>(
      make_plan(inputs, known, options.strategy, options.hints, mpi.world()));
  return Training(options, inputs, machine, known, std::move(plan)).run(mpi);
}

}  // namespace

int train(const TrainOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return run(options, mpi); });
}

}  // namespace hidup
