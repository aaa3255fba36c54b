// hidup train: from two decks to a trained model and its timing file.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "app/costs.h"
#include "app/emulation.h"
#include "app/initial.h"
#include "app/inputs.h"
#include "app/job.h"
#include "app/machine.h"
#include "app/plan.h"
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
#include "cost/floor.h"
#include "cost/simulate.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/flops.h"
#include "graph/text.h"
#include "io/output_path.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/repeated_work.h"
#include "train/checkpoints.h"
#include "train/evaluate.h"
#include "train/kept.h"
#include "train/schedule.h"
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

void check_start(const TrainOptions& options) {
  check_names(options.names);
  if (!options.init.empty() && !options.resume.empty() && options.resume != "auto") {
    fail(ExitCode::usage,
         "--init and --resume {}: the checkpoint has all parameters; with --resume auto, --init "
         "holds where there is none",
         options.resume);
  }
}

// A run with everything in place.
class Run {
 public:
  Run(const TrainOptions& options, MpiSession& mpi)
      : options_(options), mpi_(mpi), world_(mpi.world()) {}

  ExitCode go() {
    read_decks();
    open_data();  // refuses another model, also where nothing is left to do
    if (is_finished()) {
      log::info("{} has all {} steps; with a larger train.steps there would be more to do",
                files_.checkpoint->path(), decks_.deck.train->steps);
      return ExitCode::done;
    }
    open_devices();
    plan();
    allocate();
    tell_plan();
    open_timings();
    return train();
  }

 private:
  void read_decks() {
    decks_ = load_decks(options_.deck, options_.cluster, options_.overrides, world_);
    Deck& deck = decks_.deck;
    std::vector<NamedFile> inputs;
    collectively(world_, [&] {
      mesh_ = mesh_of(deck, check_ranks(deck, world_.size()));
      check_strategy_choice(options_.strategy);
      check_start(options_);
      inputs = files_read(options_.deck, options_.cluster, deck, options_.strategy, options_.hints);
    });
    guide_heartbeat();
    files_ = open_run_files({.out = output_name(options_),
                             .names_out = !options_.out.empty(),
                             .gradients = options_.dump_gradients,
                             .resume = options_.resume,
                             .overwrite = options_.overwrite,
                             .inputs = std::move(inputs)},
                            deck, world_);
  }

  void open_data() {
    data_ = load_data(decks_.deck, world_);
    log::info("data: {}", data_.description);
    collectively(world_, [&] {
      graph_.emplace(make_graph(decks_.deck, decks_.graph, data_.vocab));
      check_checkpoint();  // before anything costs time
      if (!options_.init.empty() && !files_.checkpoint) {
        initial_.emplace(options_.init, options_.names, decks_.deck, *graph_, data_.vocab);
        log::info("starts from {}, with the names of {}", initial_->path(), initial_->names());
      }
    });
  }

  // Devices, and what is known of their speed.
  void open_devices() {
    const Deck& deck = decks_.deck;
    threads_ = compute_threads(deck, world_, mpi_.host());
    device_ = open_device(deck, mpi_);
    open_communication(deck, mesh_, mpi_, *device_, communication_);
    const std::optional<Profile> profile =
        obtain_profile({deck, *graph_, *data_.batches, mesh_, world_, mpi_.host(), communication_,
                        *device_, threads_});
    costs_ = costs_of(deck, mesh_, profile);
    check_emulated_costs(deck, mesh_, costs_, world_);
    measured_ = profile.has_value();
    rates_ = profile ? profile->rates : std::nullopt;
    take_free_memory(*device_, world_);  // the first messages of NCCL took some
    memory_ = std::ranges::min(all_gather_value(world_, device_->memory()));
    if (deck.cluster->emulates()) {  // what the plan takes has to fit here, too
      memory_ = deck.cluster->device_memory.value_or(memory_);
    }
  }

  // Strategy, program and memory.
  void plan() {
    choose_strategy();
    program_ = make_program(*graph_, loaded_.strategy, decks_.deck, world_);
    collectively(world_, [&] {
      plan_ = plan_memory(program_, world_.rank());
      verify(program_, plan_);
    });
    if (data_.validation) {
      validation_.emplace(*graph_, loaded_.strategy, decks_.deck, PlannedProgram{program_, plan_},
                          world_);
    }
  }

  void allocate() {
    communication_.groups->add_groups_of(program_);
    if (validation_) {
      communication_.groups->add_groups_of(validation_->planned().program);
    }
    start_ = run_start(world_, mpi_.host());
    if (decks_.deck.cluster->emulates()) {
      emulation_.emplace(decks_.deck, program_, *costs_, mpi_, start_,
                         [this] { return device_->failed(); });
    }
    collectively(world_, [&] {
      std::vector<PlannedProgram> programs = {{program_, plan_}};
      if (validation_) {
        programs.push_back(validation_->planned());
      }
      store_.emplace(programs, *device_, *communication_.groups, threads_);
      executor_.emplace(program_, plan_, *store_, world_.rank(), decks_.deck.train->seed,
                        emulation_ ? &emulation_->emulator() : nullptr);
      if (validation_) {
        validation_->prepare(*store_, data_);
      }
    });
    store_->register_arena();
    if (files_.checkpoint) {
      restore(world_, *executor_, *files_.checkpoint);
    } else if (initial_) {
      collectively(world_, [&] { initial_->load(*executor_, world_.rank()); });
    } else {
      executor_->initialize_parameters();
    }
  }

  // Of the rank that has the longest. The same on all ranks but for the times.
  void find_floor() {
    if (rates_) {
      floor_ =
          step_floor(program_, world_.rank(), *rates_, element_type(decks_.deck.model->precision));
    }
    if (floor_) {
      floor_->seconds = std::ranges::max(all_gather_value(world_, floor_->seconds));
    }
  }

  // What a step is going to take.
  void tell_plan() {
    find_floor();
    if (costs_ && world_.rank() == 0) {
      prediction_ = emulation_ ? emulation_->predict()
                               : simulate(program_, rank_costs(decks_.deck, mesh_, *costs_));
      annotate(loaded_.strategy, program_, plan_, *prediction_);
    }
    log::info("model: {}, {} parameters; strategy {}; {} rank(s) with {} thread(s) each, {} a rank",
              graph_->name(), format_count(graph_->parameter_count()), loaded_.strategy.name,
              world_.size(), threads_, format_bytes(store_->bytes()));
    if (prediction_) {
      log::info("predicted{}: {}", measured_ ? "" : " from " + costs_->key.device,
                describe(*prediction_));
      tell_repeated_work();
    }
  }

  void open_timings() {
    header_ = timing_header({options_.deck, options_.command_line, decks_, data_, *graph_, loaded_,
                             program_, plan_, *device_, communication_, prediction_},
                            mpi_);
    header_.strategy.floor_s = floor_ ? floor_->seconds : 0.0;
    if (emulation_) {
      header_.emulation = {.dilation = decks_.deck.cluster->emulate_dilation};
    }
    if (files_.checkpoint) {
      header_.run.continued_from = files_.checkpoint->state().timing_file;
      header_.run.continued_at_step = files_.steps_done();
    }
    collectively(world_, [&] {
      if (world_.rank() == 0) {
        timings_.emplace(files_.out, options_.overwrite, header_);
        remove_old_checkpoints(files_);
      }
    });
  }

  ExitCode train() {
    const Deck& deck = decks_.deck;
    Checkpoints checkpoints(deck,
                            {.folder = files_.checkpoints,
                             .run = files_.run,
                             .lock = files_.lock.get(),
                             .timings = timings_ ? &*timings_ : nullptr},
                            initial_state(files_, decks_, data_, *graph_, header_), *executor_,
                            world_);
    const double peak =
        static_cast<double>(world_.size()) * deck.cluster->device_flops.value_or(0.0);
    const bool images = deck.data->kind == "images";
    Report report(
        deck.train->steps,
        {.count = deck.train->batch * (images ? 1 : deck.model->sequence), .images = images},
        data_.unigram_entropy, {.model = model_flops(*graph_), .peak = peak},
        emulation_ ? std::optional(emulation_->scale(prediction_)) : std::nullopt);
    StopWatch watch({.folder = std::filesystem::path(files_.out).parent_path().string(),
                     .began = options_.began,
                     .limit_s = options_.wall_time_s});
    const bool first = world_.rank() == 0;
    Trainer trainer(deck, *data_.batches, *executor_, world_, start_,
                    {.timings = first ? &*timings_ : nullptr,
                     .report = first ? &report : nullptr,
                     .stop_watch = first ? &watch : nullptr,
                     .checkpoints = &checkpoints,
                     .gradients = options_.dump_gradients,
                     .overwrite = options_.overwrite,
                     .validation = validation_ ? &validation_->evaluator() : nullptr});
    if (files_.checkpoint) {
      trainer.resume(*files_.checkpoint);
    }
    guided_executor_ = &*executor_;
    guided_trainer_ = &trainer;
    const StopReason stopped = run(trainer);
    guide_.reset();  // it reads what goes now
    if (first) {
      report.summary(plan_, prediction_, floor_, files_.out, checkpoints.last_file());
    }
    if (stopped != StopReason::none && trainer.current_step() < deck.train->steps) {
      log::info("stopped by {} after step {} of {}; --resume auto goes on from there",
                describe(stopped), trainer.current_step(), deck.train->steps);
      return ExitCode::stopped;
    }
    return ExitCode::done;
  }

  bool is_finished() const { return files_.steps_done() >= decks_.deck.train->steps; }

  void check_checkpoint() const {
    if (!files_.checkpoint) {
      return;
    }
    const std::string changed = check_resumable(
        *files_.checkpoint,
        {with_vocab(decks_.deck, data_.vocab), decks_.graph, data_.vocabulary, data_.hash()});
    if (is_finished()) {
      return;
    }
    log::info("resumes from {}, step {}{}", files_.checkpoint->path(), files_.steps_done(),
              changed.empty() ? "" : "; changed since: " + changed);
    const std::string raised =
        describe_raise(*deck_of(*files_.checkpoint).train, *decks_.deck.train, files_.steps_done());
    if (!raised.empty()) {
      log::warning("{}", raised);
    }
  }

  void choose_strategy() {
    if (files_.checkpoint && options_.strategy.empty()) {
      if (std::optional<Strategy> stored =
              stored_strategy(files_.checkpoint->state().strategy, decks_.deck, *graph_, mesh_)) {
        loaded_.strategy = std::move(*stored);
        return;
      }
      log::info(
          "the checkpoint's strategy is for another graph or mesh: a new one is searched for");
    }
    loaded_ = load_strategy(options_.strategy.empty() ? kSearch : options_.strategy, decks_.deck,
                            *graph_, mesh_, {costs_, options_.hints, memory_}, world_);
  }

  // A rank that fails alone ends all ranks from here: unwinding would wait for
  // collectives that the others never finish.
  StopReason run(Trainer& trainer) {
    try {
      const StopReason stopped = trainer.run();
      if (timings_) {
        timings_->close();
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

  void tell_repeated_work() const {
    const bool chosen = loaded_.search_s > 0.0 && options_.hints.empty();
    const std::string repeated =
        describe(repeated_work(*graph_, loaded_.strategy, rank_costs(decks_.deck, mesh_, *costs_),
                               lowering_options(decks_.deck), memory_),
                 mesh_, chosen);
    if (!repeated.empty()) {
      log::info("repeated work: {}", repeated);
    }
  }

  void guide_heartbeat() {
    const auto here = [this] {
      const Trainer* trainer = guided_trainer_.load();
      const Executor* executor = guided_executor_.load();
      return Progress{trainer != nullptr ? trainer->current_step() : 0,
                      executor != nullptr ? executor->current_instruction() : -1};
    };
    const auto describe = [this](const Progress& progress) -> std::string {
      if (progress.step == 0) {
        return "starting";
      }
      if (progress.instruction == Executor::kUntimed) {
        return fmt::format("in step {}", progress.step);
      }
      if (progress.instruction < 0) {
        return fmt::format("at the end of step {}", progress.step);
      }
      return fmt::format("in step {}, at {}", progress.step,
                         program_.instructions.at(static_cast<size_t>(progress.instruction)).name);
    };
    const ClusterDeck& cluster = *decks_.deck.cluster;
    mpi_.set_timeouts(cluster.heartbeat_timeout_s, cluster.collective_timeout_s);
    guide_.emplace(mpi_.heartbeat(), here, describe);
  }

  const TrainOptions& options_;
  MpiSession& mpi_;
  Communicator& world_;
  Decks decks_;
  Mesh mesh_;
  RunFiles files_;
  Dataset data_;
  std::optional<Graph> graph_;
  std::optional<InitialModel> initial_;
  std::optional<Profile> costs_;
  std::optional<DeviceRates> rates_;
  bool measured_ = false;  // and not rates of the cluster deck
  LoadedStrategy loaded_;
  Program program_;
  MemoryPlan plan_;
  std::optional<Prediction> prediction_;  // on rank 0
  std::optional<StepFloor> floor_;
  std::atomic<const Trainer*> guided_trainer_ = nullptr;
  std::atomic<const Executor*> guided_executor_ = nullptr;
  std::optional<Heartbeat::Guide> guide_;
  double start_ = 0.0;  // run_start()
  int threads_ = 1;
  int64_t memory_ = 0;  // bytes, the least of all ranks
  // Each uses those before it.
  Communication communication_;
  std::unique_ptr<Device> device_;
  std::optional<Store> store_;
  std::optional<Emulation> emulation_;  // where times are emulated
  std::optional<Executor> executor_;
  std::optional<Validation> validation_;
  TimingHeader header_;
  std::optional<TimingFile> timings_;  // on rank 0
};

}  // namespace

int train(const TrainOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return Run(options, mpi).go(); });
}

}  // namespace hidup
