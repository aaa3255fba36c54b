// hidup train: from two decks to a trained model and its timing file.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "app/costs.h"
#include "app/job.h"
#include "app/planning.h"
#include "app/profiling.h"
#include "app/run_files.h"
#include "app/timing_header.h"
#include "app/validation.h"
#include "comm/clock.h"
#include "comm/collective.h"
#include "comm/heartbeat.h"
#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/units.h"
#include "cost/simulate.h"
#include "graph/flops.h"
#include "graph/text.h"
#include "io/output_path.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/repeated_work.h"
#include "train/checkpoints.h"
#include "train/evaluate.h"
#include "train/kept.h"
#include "train/setup.h"
#include "train/stop.h"
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

// A run with everything in place; numbered as it happens.
class Run {
 public:
  Run(const TrainOptions& options, MpiSession& mpi)
      : options_(options), mpi_(mpi), world_(mpi.world()) {}

  ExitCode go() {
    // 1. Decks, what to go on from, and whether the outputs can be written.
    catch_stop_signals();
    decks_ = load_decks(options_.deck, options_.cluster, options_.overrides, world_);
    Deck& deck = decks_.deck;
    Mesh mesh;
    std::vector<NamedFile> inputs;
    collectively(world_, [&] {
      mesh = mesh_of(deck, check_ranks(deck, world_.size()));
      check_strategy_choice(options_.strategy);
      inputs = files_read(options_.deck, options_.cluster, deck, options_.strategy, options_.hints);
    });
    guide_heartbeat();
    files_ = open_run_files({.out = output_name(options_),
                             .gradients = options_.dump_gradients,
                             .resume = options_.resume,
                             .overwrite = options_.overwrite,
                             .inputs = std::move(inputs)},
                            deck, world_);
    if (files_.checkpoint && files_.checkpoint->state().step >= deck.train.steps) {
      log::info("{} has all {} steps; with a larger train.steps there would be more to do",
                files_.checkpoint->path(), deck.train.steps);
      return ExitCode::done;
    }

    // 2. Data and graph.
    data_ = load_data(deck, world_);
    log::info("data: {}", data_.description);
    std::optional<Graph> graph;
    collectively(world_, [&] {
      graph.emplace(make_graph(deck, decks_.graph, data_.vocab));
      check_checkpoint();
    });

    // 3. Device, and what is known of its speed.
    const int threads = compute_threads(deck, world_, mpi_.host());
    const std::unique_ptr<Device> device = open_device(deck, mpi_);
    open_communication(deck, mesh, mpi_, *device, communication_);
    const std::optional<Profile> profile =
        obtain_profile({deck, *graph, *data_.batches, mesh, world_, mpi_.host(), communication_,
                        *device, threads});
    const std::optional<Profile> costs = costs_of(deck, mesh, profile);

    // 4. Strategy and program.
    const int64_t memory = std::ranges::min(all_gather_value(world_, device->memory()));
    choose_strategy(*graph, mesh, {costs, options_.hints, memory});
    Strategy& strategy = loaded_.strategy;
    program_ = make_program(*graph, strategy, deck, world_);
    MemoryPlan plan;
    collectively(world_, [&] {
      plan = plan_memory(program_, world_.rank());
      verify(program_, plan);
    });
    std::optional<Store> store;  // the next one ends before it
    std::optional<Validation> validation;
    if (data_.validation) {
      validation.emplace(*graph, strategy, deck, PlannedProgram{program_, plan}, world_);
    }

    // 5. Memory; what a step is going to take; and the timing file.
    std::optional<Executor> executor;
    collectively(world_, [&] {
      std::vector<PlannedProgram> programs = {{program_, plan}};
      if (validation) {
        programs.push_back(validation->planned());
      }
      store.emplace(programs, *device, *communication_.groups, threads);
      executor.emplace(program_, plan, *store, world_.rank(), deck.train.seed);
      if (validation) {
        validation->prepare(*store, data_);
      }
    });
    start_parameters(*executor);
    if (costs && world_.rank() == 0) {
      prediction_ = simulate(program_, CostModel(*costs));
      annotate(strategy, program_, plan, *prediction_);
    }
    log::info("model: {}, {} parameters; strategy {}; {} rank(s) with {} thread(s) each, {} a rank",
              graph->name(), format_count(graph->parameter_count()), strategy.name, world_.size(),
              threads, format_bytes(store->bytes()));
    if (prediction_) {
      log::info("predicted{}: {}", profile ? "" : " from " + costs->key.device,
                describe(*prediction_));
      tell_repeated_work(*graph, *costs, mesh, memory);
    }
    TimingHeader header =
        timing_header({options_.deck, options_.command_line, decks_, data_, *graph, loaded_,
                       program_, plan, *device, communication_, prediction_},
                      mpi_);
    if (files_.checkpoint) {
      header.run.continued_from = previous_timings(files_);
      header.run.continued_at_step = files_.checkpoint->state().step;
    }
    std::optional<TimingFile> timings;
    collectively(world_, [&] {
      if (world_.rank() == 0) {
        timings.emplace(files_.out, options_.overwrite, header);
        remove_old_checkpoints(files_);
      }
    });

    // 6. Train.
    Checkpoints checkpoints(deck, files_.checkpoints,
                            initial_state(files_, decks_, data_, *graph, header), *executor,
                            world_);
    const double peak =
        static_cast<double>(world_.size()) * deck.cluster.device_flops.value_or(0.0);
    Report report(deck.train.steps, deck.train.batch * deck.model.sequence, data_.unigram_entropy,
                  {.model = model_flops(*graph), .peak = peak});
    StopWatch watch({.folder = std::filesystem::path(files_.out).parent_path().string(),
                     .began = options_.began,
                     .limit_s = options_.wall_time_s});
    const bool first = world_.rank() == 0;
    Trainer trainer(deck, *data_.batches, *executor, world_, run_start(world_, mpi_.host()),
                    {.timings = first ? &*timings : nullptr,
                     .report = first ? &report : nullptr,
                     .stop_watch = first ? &watch : nullptr,
                     .checkpoints = &checkpoints,
                     .gradients = options_.dump_gradients,
                     .overwrite = options_.overwrite,
                     .validation = validation ? &validation->evaluator() : nullptr});
    if (files_.checkpoint) {
      trainer.resume(files_.checkpoint->state().step, scale_of(*files_.checkpoint));
    }
    trainer_ = &trainer;
    executor_ = &*executor;
    const StopReason stopped = train(trainer, timings);

    // 7. The end.
    guide_.reset();  // it reads what goes now
    if (first) {
      report.summary(plan, prediction_, files_.out, checkpoints.last_file());
    }
    if (stopped != StopReason::none) {
      log::info("stopped by {} after step {} of {}; --resume auto goes on from there",
                describe(stopped), trainer.current_step(), deck.train.steps);
      return ExitCode::stopped;
    }
    return ExitCode::done;
  }

 private:
  // Before anything costs time.
  void check_checkpoint() const {
    if (!files_.checkpoint) {
      return;
    }
    const std::string changed = check_resumable(
        *files_.checkpoint, {decks_.deck, decks_.graph, data_.vocabulary, data_.hash()});
    log::info("resumes from {}, step {}{}", files_.checkpoint->path(),
              files_.checkpoint->state().step,
              changed.empty() ? "" : "; changed since: " + changed);
  }

  void choose_strategy(const Graph& graph, const Mesh& mesh, const SearchBasis& basis) {
    if (files_.checkpoint && options_.strategy.empty()) {
      if (std::optional<Strategy> stored =
              stored_strategy(files_.checkpoint->state().strategy, decks_.deck, graph, mesh)) {
        loaded_.strategy = std::move(*stored);
        return;
      }
      log::info(
          "the checkpoint's strategy is for another graph or mesh: a new one is searched for");
    }
    loaded_ = load_strategy(options_.strategy.empty() ? kSearch : options_.strategy, decks_.deck,
                            graph, mesh, basis, world_);
  }

  void start_parameters(Executor& executor) {
    if (files_.checkpoint) {
      restore(world_, executor, *files_.checkpoint);
    } else {
      executor.initialize_parameters();
    }
  }

  // A rank that fails alone ends all ranks from here: unwinding would wait for
  // collectives that the others never finish.
  StopReason train(Trainer& trainer, std::optional<TimingFile>& timings) {
    try {
      const StopReason stopped = trainer.run();
      if (timings) {
        timings->close();
      }
      return stopped;
    } catch (const CollectiveError&) {  // which all ranks have
      throw;
    } catch (...) {
      const Failure failure = current_failure();
      abort_all_ranks(failure.code,
                      fmt::format("step {}: {}", trainer.current_step(), failure.message));
    }
  }

  void tell_repeated_work(const Graph& graph, const Profile& costs, const Mesh& mesh,
                          int64_t memory) const {
    const bool chosen = loaded_.search_s > 0.0 && options_.hints.empty();
    const std::string repeated = describe(repeated_work(graph, loaded_.strategy, CostModel(costs),
                                                        lowering_options(decks_.deck), memory),
                                          mesh, chosen);
    if (!repeated.empty()) {
      log::info("repeated work: {}", repeated);
    }
  }

  void guide_heartbeat() {
    const auto here = [this] {
      const Trainer* trainer = trainer_.load();
      const Executor* executor = executor_.load();
      return Progress{trainer != nullptr ? trainer->current_step() : 0,
                      executor != nullptr ? executor->current_instruction() : -1};
    };
    const auto describe = [this](const Progress& progress) -> std::string {
      if (progress.step == 0) {
        return "starting";
      }
      if (progress.instruction < 0) {
        return fmt::format("at the end of step {}", progress.step);
      }
      return fmt::format("in step {}, at {}", progress.step,
                         program_.instructions.at(static_cast<size_t>(progress.instruction)).name);
    };
    mpi_.heartbeat().set_timeout(decks_.deck.cluster.heartbeat_timeout_s);
    guide_.emplace(mpi_.heartbeat(), here, describe);
  }

  const TrainOptions& options_;
  MpiSession& mpi_;
  Communicator& world_;
  Decks decks_;
  RunFiles files_;
  Dataset data_;
  LoadedStrategy loaded_;
  Program program_;
  std::atomic<const Trainer*> trainer_ = nullptr;
  std::atomic<const Executor*> executor_ = nullptr;
  std::optional<Prediction> prediction_;  // on rank 0
  std::optional<Heartbeat::Guide> guide_;
  Communication communication_;
};

}  // namespace

int train(const TrainOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return Run(options, mpi).go(); });
}

}  // namespace hidup
