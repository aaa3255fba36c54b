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
#include "app/timing_header.h"
#include "app/validation.h"
#include "checkpoint/folder.h"
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

// The checkpoints of a run with that timing file.
std::string checkpoint_folder(const Deck& deck, const std::string& out) {
  const std::string& wanted = deck.train.checkpoint.folder;
  return wanted.empty() ? std::filesystem::path(out).replace_extension(".ckpt").string() : wanted;
}

// For a run that goes on where another stopped, whose timing file stays: NAME, NAME-2, NAME-3, ...
std::string free_name(const std::string& out) {
  const std::filesystem::path path = out;
  std::string name = out;
  for (int number = 2; std::filesystem::exists(name); ++number) {
    name = (path.parent_path() / path.stem()).string() +
           fmt::format("-{}{}", number, path.extension().string());
  }
  return name;
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
    collectively(world_, [&] {
      mesh = mesh_of(deck, check_ranks(deck, world_.size()));
      check_strategy_choice(options_.strategy);
    });
    guide_heartbeat();
    name_outputs();
    if (checkpoint_ && checkpoint_->state().step >= deck.train.steps) {
      log::info("{} has all {} steps; with a larger train.steps there would be more to do",
                checkpoint_->path(), deck.train.steps);
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
    std::optional<Store> store;
    std::optional<Validation> validation;
    if (data_.validation != nullptr && deck.train.validate_every > 0) {
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
    header.validation = validation.has_value();
    if (checkpoint_) {
      header.run.continued_from = previous_timings();
      header.run.continued_at_step = checkpoint_->state().step;
    }
    std::optional<TimingFile> timings;
    collectively(world_, [&] {
      if (world_.rank() == 0) {
        timings.emplace(out_, options_.overwrite, header);
        remove_old_checkpoints();
      }
    });

    // 6. Train.
    Checkpoints checkpoints(deck, folder_, initial_state(*graph, header), *executor, world_);
    const double peak =
        static_cast<double>(world_.size()) * deck.cluster.device_flops.value_or(0.0);
    Report report(deck.train.steps, deck.train.batch * deck.model.sequence, data_.unigram_entropy,
                  {.model = model_flops(*graph), .peak = peak});
    StopWatch watch({.folder = std::filesystem::path(out_).parent_path().string(),
                     .began = options_.began,
                     .limit_s = options_.wall_time_s});
    const bool first = world_.rank() == 0;
    Trainer trainer(
        deck, *data_.batches, *executor, world_, run_start(world_, mpi_.host()),
        {.timings = first ? &*timings : nullptr,
         .report = first ? &report : nullptr,
         .stop_watch = first ? &watch : nullptr,
         .checkpoints = &checkpoints,
         .gradients = options_.dump_gradients,
         .overwrite = options_.overwrite,
         .validate = validation ? [&] { return validation->loss(); } : std::function<double()>()});
    if (checkpoint_) {
      trainer.resume(checkpoint_->state().step, scale_of(*checkpoint_));
    }
    trainer_ = &trainer;
    executor_ = &*executor;
    const StopReason stopped = train(trainer, timings);

    // 7. The end.
    guide_.reset();  // it reads what goes now
    if (first) {
      report.summary(plan, prediction_, out_, checkpoints.last_file());
    }
    if (stopped != StopReason::none) {
      log::info("stopped by {} after step {} of {}; --resume auto goes on from there",
                describe(stopped), trainer.current_step(), deck.train.steps);
      return ExitCode::stopped;
    }
    return ExitCode::done;
  }

 private:
  // Where the run writes, and the checkpoint that it goes on from.
  void name_outputs() {
    const std::string out = world_.broadcast(output_name(options_));
    folder_ = checkpoint_folder(decks_.deck, out);
    if (options_.resume == "auto") {
      checkpoint_ = open_newest(world_, folder_);
      if (!checkpoint_) {
        log::info("no complete checkpoint in {}: the run starts with step 1", folder_);
      }
    } else if (!options_.resume.empty()) {
      checkpoint_.emplace(open_checkpoint(world_, options_.resume));
    }
    collectively(world_, [&] {
      if (checkpoint_ && !options_.dump_gradients.empty()) {
        fail(ExitCode::usage,
             "--dump-gradients writes those of step 1, but the run goes on from {}",
             checkpoint_->path());
      }
      if (world_.rank() == 0) {
        out_ = options_.resume.empty() ? out : free_name(out);
        check_folder();
        prepare_outputs({{"--out", out_}, {"--dump-gradients", options_.dump_gradients}},
                        files_read(options_.deck, options_.cluster, decks_.deck, options_.strategy,
                                   options_.hints),
                        options_.overwrite);
      }
    });
    out_ = world_.broadcast(out_);
  }

  // What other runs left there must not be taken for this run's.
  void check_folder() const {
    const std::vector<FoundCheckpoint> found = list_checkpoints(folder_).complete;
    const int64_t step = checkpoint_ ? checkpoint_->state().step : 0;
    if (found.empty() || found.front().step <= step) {
      return;
    }
    if (checkpoint_) {
      log::warning("{} is newer than step {}, and --resume auto would take it", found.front().path,
                   step);
    } else if (!options_.overwrite) {
      fail(ExitCode::file,
           "{}: has checkpoints of an earlier run, up to step {}: --resume auto goes on from "
           "there, --overwrite removes them",
           folder_, found.front().step);
    }
  }

  void remove_old_checkpoints() const {
    if (!checkpoint_ && options_.overwrite && world_.rank() == 0) {
      for (const FoundCheckpoint& old : list_checkpoints(folder_).complete) {
        std::filesystem::remove(old.path);
      }
    }
  }

  // Before anything costs time.
  void check_checkpoint() const {
    if (!checkpoint_) {
      return;
    }
    const std::string changed =
        check_resumable(*checkpoint_, {decks_.deck, decks_.graph, data_.vocabulary});
    log::info("resumes from {}, step {}{}", checkpoint_->path(), checkpoint_->state().step,
              changed.empty() ? "" : "; changed since: " + changed);
  }

  void choose_strategy(const Graph& graph, const Mesh& mesh, const SearchBasis& basis) {
    if (checkpoint_ && options_.strategy.empty()) {
      if (std::optional<Strategy> stored =
              stored_strategy(checkpoint_->state().strategy, decks_.deck, graph, mesh)) {
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
    if (checkpoint_) {
      restore(world_, executor, *checkpoint_);
    } else {
      executor.initialize_parameters();
    }
  }

  // The timing file of the run before, as seen from this one's folder.
  std::string previous_timings() const {
    const std::filesystem::path folder = std::filesystem::absolute(out_).parent_path();
    return std::filesystem::path(checkpoint_->state().timing_file)
        .lexically_proximate(folder)
        .string();
  }

  TrainingState initial_state(const Graph& graph, const TimingHeader& header) const {
    return {.step = checkpoint_ ? checkpoint_->state().step : 0,
            .seed = decks_.deck.train.seed,
            .graph_hash = fmt::format("{:016x}", graph_hash(graph)),
            .program_version = header.run.program_version,
            .started_at = header.run.started_at,
            .strategy = header.strategy.text,
            .model_deck = header.inputs.model_deck,
            .cluster_deck = header.inputs.cluster_deck,
            .resolved = header.inputs.resolved,
            .graph = decks_.graph,
            .timing_file = std::filesystem::absolute(out_).string(),
            .vocabulary = data_.vocabulary};
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
  std::string out_;
  std::string folder_;                        // of checkpoints
  std::optional<CheckpointFile> checkpoint_;  // that the run goes on from
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
