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
#include "comm/clock.h"
#include "comm/collective.h"
#include "comm/heartbeat.h"
#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/units.h"
#include "core/version.h"
#include "cost/simulate.h"
#include "graph/flops.h"
#include "graph/text.h"
#include "io/output_path.h"
#include "io/resources.h"
#include "kernels/library.h"
#include "program/memory.h"
#include "program/print.h"
#include "program/verify.h"
#include "search/repeated_work.h"
#include "train/assemble.h"
#include "train/setup.h"
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

std::string kind_of(Opcode opcode) {
  return !collective_of(opcode).empty() ? "collective" : is_reshard(opcode) ? "local" : "compute";
}

std::vector<ProgramRow> program_rows(const Program& program) {
  std::vector<ProgramRow> rows;
  for (const Instruction& instruction : program.instructions) {
    const std::string collective(collective_of(instruction.opcode));
    rows.push_back({.name = instruction.name,
                    .kind = kind_of(instruction.opcode),
                    .stream = std::string(name_of(instruction.stream)),
                    .microbatch = instruction.microbatch,
                    .phase = std::string(name_of(instruction.phase)),
                    .collective = collective,
                    .flops = static_cast<int64_t>(instruction.flops),
                    .bytes = static_cast<int64_t>(instruction.bytes)});
  }
  return rows;
}

PredictionInfo prediction_row(const Prediction& prediction, const MemoryPlan& plan) {
  PredictionInfo info{.iteration_s = prediction.iteration_s,
                      .compute_s = prediction.busy.compute_s,
                      .comm_s = prediction.busy.comm_s,
                      .exposed_comm_s = prediction.busy.exposed_comm_s,
                      .peak_bytes = plan.bytes};
  for (const Interval& interval : prediction.instructions) {
    info.start_s.push_back(interval.start_s);
    info.length_s.push_back(interval.end_s - interval.start_s);
  }
  return info;
}

// A run with everything in place; numbered as it happens.
class Run {
 public:
  Run(const TrainOptions& options, MpiSession& mpi)
      : options_(options), mpi_(mpi), world_(mpi.world()) {}

  void go() {
    // 1. Decks, and whether the outputs can be written.
    decks_ = load_decks(options_.deck, options_.cluster, options_.overrides, world_);
    Deck& deck = decks_.deck;
    out_ = world_.broadcast(output_name(options_));
    Mesh mesh;
    collectively(world_, [&] {
      mesh = mesh_of(deck, check_ranks(deck, world_.size()));
      check_strategy_choice(options_.strategy);
      if (world_.rank() == 0) {
        prepare_outputs(
            {{"--out", out_}, {"--dump-gradients", options_.dump_gradients}},
            files_read(options_.deck, options_.cluster, deck, options_.strategy, options_.hints),
            options_.overwrite);
      }
    });
    guide_heartbeat();

    // 2. Data and graph.
    data_ = load_data(deck, world_);
    log::info("data: {}", data_.description);
    std::optional<Graph> graph;
    collectively(world_, [&] { graph.emplace(make_graph(deck, decks_.graph, data_.vocab)); });

    // 3. Device, and what is known of its speed.
    const int threads = compute_threads(deck, world_, mpi_.host());
    const std::unique_ptr<Device> device = open_device(deck, mpi_);
    open_communication(deck, mesh, mpi_, *device, communication_);
    const MeshGroups& groups = *communication_.groups;
    const std::optional<Profile> profile =
        obtain_profile({deck, *graph, *data_.batches, mesh, world_, mpi_.host(), communication_,
                        *device, threads});
    const std::optional<Profile> costs = costs_of(deck, mesh, profile);

    // 4. Strategy and program.
    const int64_t memory = std::ranges::min(all_gather_value(world_, device->memory()));
    loaded_ = load_strategy(options_.strategy, deck, *graph, mesh, {costs, options_.hints, memory},
                            world_);
    Strategy& strategy = loaded_.strategy;
    program_ = make_program(*graph, strategy, deck, world_);
    MemoryPlan plan;
    collectively(world_, [&] {
      plan = plan_memory(program_, world_.rank());
      verify(program_, plan);
    });

    // 5. Memory; what a step is going to take; and the timing file.
    std::optional<Store> store;
    std::optional<Executor> executor;
    collectively(world_, [&] {
      const PlannedProgram planned{program_, plan};
      store.emplace(std::span(&planned, 1), *device, groups, threads);
      executor.emplace(program_, plan, *store, world_.rank(), deck.train.seed);
      executor->initialize_parameters();
    });
    if (costs && world_.rank() == 0) {
      prediction_ = simulate(program_, CostModel(*costs));
      annotate(strategy, program_, executor->plan(), *prediction_);
    }
    log::info("model: {}, {} parameters; strategy {}; {} rank(s) with {} thread(s) each, {} a rank",
              graph->name(), format_count(graph->parameter_count()), strategy.name, world_.size(),
              threads, format_bytes(executor->plan().bytes));
    if (prediction_) {
      log::info("predicted{}: {}", profile ? "" : " from " + costs->key.device,
                describe(*prediction_));
      tell_repeated_work(*graph, *costs, mesh, memory);
    }
    const TimingHeader header = make_header(*graph, executor->plan(), *device);
    std::optional<TimingFile> timings;
    collectively(world_, [&] {
      if (world_.rank() == 0) {
        timings.emplace(out_, options_.overwrite, header);
      }
    });

    // 6. Train.
    const double peak =
        static_cast<double>(world_.size()) * deck.cluster.device_flops.value_or(0.0);
    Report report(deck.train.steps, deck.train.batch * deck.model.sequence, data_.unigram_entropy,
                  {.model = model_flops(*graph), .peak = peak});
    const bool first = world_.rank() == 0;
    Trainer trainer(deck, *data_.batches, *executor, world_, run_start(world_, mpi_.host()),
                    {.timings = first ? &*timings : nullptr,
                     .report = first ? &report : nullptr,
                     .gradients = options_.dump_gradients,
                     .overwrite = options_.overwrite});
    trainer_ = &trainer;
    executor_ = &*executor;
    train(trainer, timings);

    // 7. The end.
    guide_.reset();  // it reads what goes now
    if (first) {
      report.summary(executor->plan(), prediction_, out_);
    }
  }

 private:
  // A rank that fails alone ends all ranks from here: unwinding would wait for
  // collectives that the others never finish.
  void train(Trainer& trainer, std::optional<TimingFile>& timings) {
    try {
      trainer.run();
      if (timings) {
        timings->close();
      }
    } catch (...) {
      const Failure failure = current_failure();
      abort_all_ranks(failure.code,
                      fmt::format("step {}: {}", trainer.current_step(), failure.message));
    }
  }

  void tell_repeated_work(const Graph& graph, const Profile& costs, const Mesh& mesh,
                          int64_t memory) const {
    const bool chosen = options_.strategy == kSearch && options_.hints.empty();
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

  // Collective: hosts and memory of all ranks.
  TimingHeader make_header(const Graph& graph, const MemoryPlan& plan, const Device& device) {
    const Strategy& strategy = loaded_.strategy;
    TimingHeader header;
    header.run = {.program_version = program_version(),
                  .git_commit = git_commit(),
                  .git_dirty = git_dirty(),
                  .command_line = options_.command_line,
                  .started_at = utc_now(),
                  .model = std::filesystem::path(options_.deck).stem().string(),
                  .world_size = world_.size(),
                  .device = device.name(),
                  .libraries = {mpi_library_version(), "HDF5 " + hdf5_version(),
                                kernels::matmul_library_version()},
                  .environment = run_environment()};
    for (const std::string& library : communication_.libraries()) {
      header.run.libraries.push_back(library);
    }
    if (data_.unigram_entropy >= 0.0) {
      header.run.unigram_entropy = data_.unigram_entropy;
    }
    header.run.hostnames = gather_texts(world_, mpi_.host());
    header.inputs = {.model_deck = decks_.model.text,
                     .cluster_deck = decks_.cluster.text,
                     .resolved = resolved_yaml(decks_.deck, DeckFile::model) +
                                 resolved_yaml(decks_.deck, DeckFile::cluster)};
    header.strategy = {.name = strategy.name,
                       .hash = fmt::format("{:016x}", strategy_hash(graph, strategy)),
                       .text = print_strategy(graph, strategy),
                       .search_s = loaded_.search_s};
    header.program = {.text = print_program(program_), .rows = program_rows(program_)};
    header.memory = {.peak_bytes = all_gather_value(world_, device.allocated()),
                     .parameter_bytes = all_gather_value(world_, plan.parameter_bytes)};
    if (prediction_) {
      header.prediction = prediction_row(*prediction_, plan);
    }
    header.experts = expert_layers(program_);
    return header;
  }

  const TrainOptions& options_;
  MpiSession& mpi_;
  Communicator& world_;
  Decks decks_;
  std::string out_;
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
  return run_job(argc, argv, [&](MpiSession& mpi) { Run(options, mpi).go(); });
}

}  // namespace hidup
