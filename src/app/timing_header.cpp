#include "app/timing_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <utility>

#include "app/class_report.h"
#include "app/launch.h"
#include "comm/collective.h"
#include "core/version.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/train_deck.h"
#include "graph/text.h"
#include "io/resources.h"
#include "kernels/arithmetic.h"
#include "kernels/library.h"
#include "program/print.h"
#include "program/work.h"
#include "train/assemble.h"
#include "train/stragglers.h"

namespace hidup {
namespace {

std::string kind_of(Opcode opcode) {
  return !collective_of(opcode).empty() ? "collective" : is_reshard(opcode) ? "local" : "compute";
}

std::vector<RankWork> distinct_work(const Program& program) {
  std::vector<RankWork> distinct;
  for (const int64_t rank : distinct_ranks(program)) {
    RankWork& works = distinct.emplace_back(RankWork{.rank = rank, .flops = {}, .bytes = {}});
    for (const Instruction& instruction : program.instructions) {
      const Work work = work_of(program, instruction, rank);
      works.flops.push_back(static_cast<int64_t>(work.flops));
      works.bytes.push_back(static_cast<int64_t>(work.bytes));
    }
  }
  return distinct;
}

// Returns the value of ProgramRow::algorithm.
std::string algorithm_of(const Instruction& instruction) {
  if (collective_of(instruction.opcode).empty()) {
    return "";
  }
  const std::string names = names_of(instruction.algorithms);
  if (!is_hierarchical(instruction)) {
    return instruction.flat ? "flat" : names.empty() ? "automatic" : names;
  }
  return names.empty() ? "hierarchical" : "hierarchical " + names;
}

}  // namespace

ProgramInfo program_info(const Program& program) {
  std::vector<ProgramRow> rows;
  for (const Instruction& instruction : program.instructions) {
    const std::string collective(collective_of(instruction.opcode));
    rows.push_back({.name = instruction.name,
                    .kind = kind_of(instruction.opcode),
                    .stream = std::string(name_of(instruction.stream)),
                    .microbatch = instruction.microbatch,
                    .phase = std::string(name_of(instruction.phase)),
                    .collective = collective,
                    .algorithm = algorithm_of(instruction),
                    .flops = static_cast<int64_t>(instruction.flops),
                    .bytes = static_cast<int64_t>(instruction.bytes)});
  }
  return {
      .text = print_program(program),
      .rows = std::move(rows),
      .distinct = has_unequal_parts(program) ? distinct_work(program) : std::vector<RankWork>{}};
}

PredictionInfo prediction_info(const Prediction& prediction, const MemoryPlan& plan) {
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

TimingHeader timing_header(const std::string& model_deck, const std::string& command_line,
                           const Inputs& inputs, const Machine& machine, const RunPlan& plan) {
  Communicator& world = machine.world;
  const Dataset& data = inputs.data;
  const auto& [program, memory] = *plan.training;
  const Strategy& strategy = plan.loaded.strategy;
  TimingHeader header;
  header.run = {.program_version = program_version(),
                .git_commit = git_commit(),
                .git_dirty = git_dirty(),
                .command_line = command_line,
                .started_at = utc_now(),
                .model = std::filesystem::path(model_deck).stem().string(),
                .world_size = world.size(),
                .device = text_of_ranks(world, machine.device->name()),
                .arithmetic = text_of_ranks(world, kernels::describe_arithmetic()),
                .environment = run_environment()};
  std::vector<std::string> libraries = {mpi_library_version(), "HDF5 " + hdf5_version(),
                                        kernels::matmul_library_version()};
  for (const std::string& library : machine.communication.libraries()) {
    libraries.push_back(library);
  }
  header.run.libraries = lines_of_ranks(world, libraries);
  if (data.unigram_entropy >= 0.0) {
    header.run.unigram_entropy = data.unigram_entropy;
  }
  header.run.hostnames = gather_texts(world, machine.host);
  header.run.mpi_ranks = fmt::format("{}", fmt::join(inputs.mpi_ranks, " "));
  header.inputs = {.model_deck = inputs.decks.model.text,
                   .cluster_deck = inputs.decks.cluster.text,
                   .resolved = resolved_yaml(with_vocab(inputs.deck(), data.vocab))};
  header.strategy = {.name = strategy.name,
                     .hash = fmt::format("{:016x}", strategy_hash(inputs.graph, strategy)),
                     .text = print_strategy(inputs.graph, strategy),
                     .search_s = plan.loaded.search_s,
                     .floor_s = plan.floor ? plan.floor->seconds : 0.0};
  header.program = program_info(program);
  header.memory = {.peak_bytes = all_gather_value(world, machine.device->allocated()),
                   .parameter_bytes = all_gather_value(world, memory.parameter_bytes)};
  if (plan.prediction) {
    header.prediction = prediction_info(*plan.prediction, memory);
  }
  if (plan.durations) {
    header.emulation = {.dilation = inputs.deck().cluster->emulate_dilation};
  }
  if (inputs.files.checkpoint) {
    header.run.continued_from = inputs.files.checkpoint->state().timing_file;
    header.run.continued_at_step = inputs.files.steps_done();
  }
  if (inputs.deck().train->adapt != "off" && world.rank() == 0) {
    header.shares = parts_of_work(program);
  }
  header.experts = expert_layers(program);
  header.validation = data.validation != nullptr;
  header.pipeline = strategy.schedule.has_value();
  if (world.size() > 1) {
    header.causes = straggler_causes();
  }
  header.images = inputs.deck().data->kind == "images";
  return header;
}

TrainingState initial_state(const Inputs& inputs, const TimingHeader& header) {
  return {.step = inputs.files.steps_done(),
          .seed = inputs.deck().train->seed,
          .graph_hash = fmt::format("{:016x}", graph_hash(inputs.graph)),
          .program_version = header.run.program_version,
          .started_at = header.run.started_at,
          .strategy = header.strategy.text,
          .model_deck = header.inputs.model_deck,
          .cluster_deck = header.inputs.cluster_deck,
          .resolved = header.inputs.resolved,
          .graph = inputs.decks.graph,
          .data_hash = inputs.data.hash(),
          .timing_file = std::filesystem::absolute(inputs.files.out).string(),
          .vocabulary = inputs.data.vocabulary};
}

}  // namespace hidup
