#include "app/timing_header.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "comm/collective.h"
#include "core/version.h"
#include "deck/data_deck.h"
#include "io/resources.h"
#include "kernels/arithmetic.h"
#include "kernels/library.h"
#include "program/print.h"
#include "program/work.h"
#include "train/assemble.h"

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

// See ProgramRow::algorithm.
std::string algorithm_of(const Instruction& instruction) {
  if (collective_of(instruction.opcode).empty()) {
    return "";
  }
  const std::string names = names_of(instruction.algorithms);
  if (instruction.inner_axes.empty()) {
    return names.empty() ? "automatic" : names;
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

TimingHeader timing_header(const RunDescription& run, MpiSession& mpi) {
  Communicator& world = mpi.world();
  const Strategy& strategy = run.strategy.strategy;
  TimingHeader header;
  header.run = {.program_version = program_version(),
                .git_commit = git_commit(),
                .git_dirty = git_dirty(),
                .command_line = run.command_line,
                .started_at = utc_now(),
                .model = std::filesystem::path(run.model).stem().string(),
                .world_size = world.size(),
                .device = run.device.name(),
                .libraries = {mpi_library_version(), "HDF5 " + hdf5_version(),
                              kernels::matmul_library_version()},
                .arithmetic = kernels::describe_arithmetic(),
                .environment = run_environment()};
  for (const std::string& library : run.communication.libraries()) {
    header.run.libraries.push_back(library);
  }
  if (run.data.unigram_entropy >= 0.0) {
    header.run.unigram_entropy = run.data.unigram_entropy;
  }
  header.run.hostnames = gather_texts(world, mpi.host());
  header.inputs = {.model_deck = run.decks.model.text,
                   .cluster_deck = run.decks.cluster.text,
                   .resolved = resolved_yaml(with_vocab(run.decks.deck, run.data.vocab))};
  header.strategy = {.name = strategy.name,
                     .hash = fmt::format("{:016x}", strategy_hash(run.graph, strategy)),
                     .text = print_strategy(run.graph, strategy),
                     .search_s = run.strategy.search_s};
  header.program = program_info(run.program);
  header.memory = {.peak_bytes = all_gather_value(world, run.device.allocated()),
                   .parameter_bytes = all_gather_value(world, run.plan.parameter_bytes)};
  if (run.prediction) {
    header.prediction = prediction_info(*run.prediction, run.plan);
  }
  header.experts = expert_layers(run.program);
  header.validation = run.data.validation != nullptr;
  header.images = run.decks.deck.data->kind == "images";
  return header;
}

}  // namespace hidup
