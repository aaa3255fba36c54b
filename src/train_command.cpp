// hidup train: from two decks to a trained model and its timing file.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include "comm/heartbeat.h"
#include "comm/mpi_session.h"
#include "commands.h"
#include "core/log.h"
#include "core/units.h"
#include "core/version.h"
#include "graph/text.h"
#include "io/output_path.h"
#include "io/resources.h"
#include "kernels/library.h"
#include "planning.h"
#include "program/print.h"
#include "program/verify.h"
#include "sharding/read_strategy.h"
#include "train/assemble.h"
#include "train/clock.h"
#include "train/collective.h"
#include "train/setup.h"
#include "train/trainer.h"

namespace hidup {
namespace {

struct Decks {
  DeckSource model;
  DeckSource cluster;
  std::string graph;  // text of model.graph; empty where a family is built
  Deck deck;
};

// Rank 0 reads the files, all ranks parse the same text.
Decks load_decks(const TrainOptions& options, Communicator& world) {
  Decks decks;
  collectively(world, [&] {
    if (world.rank() == 0) {
      decks.model = read_deck_file(options.deck);
      decks.cluster = read_deck_file(options.cluster);
    }
  });
  for (DeckSource* source : {&decks.model, &decks.cluster}) {
    for (std::string* text : {&source->name, &source->text, &source->folder}) {
      *text = world.broadcast(*text);
    }
  }
  collectively(world, [&] {
    decks.deck = parse_decks(&decks.model, &decks.cluster, options.overrides);
    decks.graph = world.rank() == 0 ? graph_text(decks.deck) : "";
  });
  decks.graph = world.broadcast(decks.graph);
  return decks;
}

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

// Rank 0 reads or makes the strategy, all ranks parse the same text; that all have the same is
// checked, not assumed.
Strategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                       const Mesh& mesh, Communicator& world) {
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) {
      text = print_strategy(graph, choose_strategy(choice, deck, graph, mesh));
    }
  });
  text = world.broadcast(text);
  Strategy strategy;
  collectively(world, [&] { strategy = parse_strategy(graph, mesh, text, choice); });
  const std::vector<uint64_t> hashes = all_gather_value(world, strategy_hash(graph, strategy));
  collectively(world, [&] {
    check(std::ranges::count(hashes, hashes[0]) == world.size(),
          "the ranks have different strategies");
  });
  return strategy;
}

// Every rank makes the program; that all made the same is checked, not assumed.
Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world) {
  Program program = lower(graph, strategy, lowering_options(deck));
  const std::string mine = print_collectives(program);
  std::vector<std::string> all;
  for (const auto& bytes : world.gather(std::as_bytes(std::span(mine)))) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  collectively(world, [&] { verify_ranks_agree(all); });
  return program;
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

// A run with everything in place; numbered as it happens.
class Run {
 public:
  Run(const TrainOptions& options, MpiSession& mpi)
      : options_(options), mpi_(mpi), world_(mpi.world()) {}

  void go() {
    // 1. Decks, and whether the outputs can be written.
    decks_ = load_decks(options_, world_);
    Deck& deck = decks_.deck;
    out_ = world_.broadcast(output_name(options_));
    Mesh mesh;
    collectively(world_, [&] {
      mesh = mesh_of(deck, check_ranks(deck, world_.size()));
      check_strategy_choice(options_.strategy);
      if (world_.rank() == 0) {
        prepare_output(out_, options_.overwrite, "--out");
        if (!options_.dump_gradients.empty()) {
          prepare_output(options_.dump_gradients, options_.overwrite, "--dump-gradients");
        }
      }
    });
    start_heartbeat();

    // 2. Data.
    collectively(world_, [&] { data_ = open_data(deck); });
    check_same_data(world_, data_);
    deck.model.vocab = data_.vocab;
    log::info("data: {}", data_.description);

    // 3. Graph, strategy, program.
    std::optional<Graph> graph;
    collectively(world_, [&] { graph.emplace(make_graph(deck, decks_.graph, data_.vocab)); });
    const Strategy strategy = load_strategy(options_.strategy, deck, *graph, mesh, world_);
    program_ = make_program(*graph, strategy, deck, world_);
    MemoryPlan plan;
    collectively(world_, [&] {
      plan = plan_memory(program_, world_.rank());
      verify(program_, plan);
    });

    // 4. Device and memory.
    const int threads = compute_threads(deck, world_, mpi_.host());
    const MeshGroups groups(world_, mesh);
    std::unique_ptr<Device> device;
    std::optional<Executor> executor;
    collectively(world_, [&] {
      device = make_device(
          {.kind = deck.cluster.device_kind, .memory = deck.cluster.device_memory.value_or(0)});
      executor.emplace(program_, std::move(plan), *device, world_.rank(), groups, threads,
                       deck.train.seed);
    });
    log::info("model: {}, {} parameters; strategy {}; {} rank(s) with {} thread(s) each, {} a rank",
              graph->name(), format_count(graph->parameter_count()), strategy.name, world_.size(),
              threads, format_bytes(executor->plan().bytes));

    // 5. Timing file.
    const TimingHeader header = make_header(*graph, strategy, executor->plan(), *device);
    std::optional<TimingFile> timings;
    collectively(world_, [&] {
      if (world_.rank() == 0) {
        timings.emplace(out_, options_.overwrite, header);
      }
    });

    // 6. Train.
    Report report(deck.train.steps, deck.train.batch * deck.model.sequence, data_.unigram_entropy);
    const bool first = world_.rank() == 0;
    Trainer trainer(deck, *data_.batches, *executor, world_, run_start(world_, mpi_.host()),
                    {.timings = first ? &*timings : nullptr,
                     .report = first ? &report : nullptr,
                     .gradients = options_.dump_gradients,
                     .overwrite = options_.overwrite});
    trainer_ = &trainer;
    executor_ = &*executor;
    train(trainer, timings);

    // 7. Leave together.
    heartbeat_.reset();
    if (first) {
      report.summary(executor->plan(), out_);
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
    } catch (const Error& error) {
      abort_all_ranks(error.code(),
                      fmt::format("step {}: {}", trainer.current_step(), error.what()));
    } catch (const std::exception& error) {
      abort_all_ranks(ExitCode::internal,
                      fmt::format("step {}: {}", trainer.current_step(), error.what()));
    }
  }

  void start_heartbeat() {
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
    heartbeat_.emplace(decks_.deck.cluster.heartbeat_timeout_s, here, describe);
  }

  // Collective: hosts and memory of all ranks.
  TimingHeader make_header(const Graph& graph, const Strategy& strategy, const MemoryPlan& plan,
                           const Device& device) {
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
    if (data_.unigram_entropy >= 0.0) {
      header.run.unigram_entropy = data_.unigram_entropy;
    }
    for (const auto& bytes : world_.gather(std::as_bytes(std::span(mpi_.host())))) {
      header.run.hostnames.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    header.inputs = {.model_deck = decks_.model.text,
                     .cluster_deck = decks_.cluster.text,
                     .resolved = resolved_yaml(decks_.deck, DeckFile::model) +
                                 resolved_yaml(decks_.deck, DeckFile::cluster)};
    header.strategy = {.name = strategy.name,
                       .hash = fmt::format("{:016x}", strategy_hash(graph, strategy)),
                       .text = print_strategy(graph, strategy)};
    header.program = {.text = print_program(program_), .rows = program_rows(program_)};
    header.memory = {.peak_bytes = all_gather_value(world_, plan.bytes),
                     .parameter_bytes = all_gather_value(world_, plan.parameter_bytes)};
    header.experts = expert_layers(program_);
    return header;
  }

  const TrainOptions& options_;
  MpiSession& mpi_;
  Communicator& world_;
  Decks decks_;
  std::string out_;
  Dataset data_;
  Program program_;
  std::atomic<const Trainer*> trainer_ = nullptr;
  std::atomic<const Executor*> executor_ = nullptr;
  std::optional<Heartbeat> heartbeat_;
};

}  // namespace

int train(const TrainOptions& options, int* argc, char*** argv) {
  MpiSession mpi(argc, argv);
  Run run(options, mpi);
  try {
    run.go();
    return 0;
  } catch (const CollectiveError& error) {
    if (*error.what() != '\0') {
      log::error(error.what());
    }
    return static_cast<int>(error.code());
  } catch (const Error& error) {
    abort_all_ranks(error.code(), error.what());
  } catch (const std::exception& error) {
    abort_all_ranks(ExitCode::internal, error.what());
  }
}

}  // namespace hidup
