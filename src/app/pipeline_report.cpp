#include "app/pipeline_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "core/units.h"
#include "cost/stage_times.h"
#include "program/memory.h"
#include "schedule/csv.h"
#include "sharding/stages.h"

namespace hidup {

void check_has_stages(const Strategy& strategy) {
  if (!strategy.schedule) {
    fail(ExitCode::usage,
         "the strategy {} has no stages to order; those of pipeline lie on an axis of two ranks or "
         "more",
         strategy.name);
  }
}

double schedule_idle(const Graph& graph, const Strategy& strategy, const Program& program,
                     const std::optional<StepCosts>& predicted) {
  const Stages stages = stages_of(graph, strategy);
  const pipeline::Schedule schedule = schedule_of(graph, strategy, stages);
  const pipeline::Times times =
      predicted
          ? stage_times(program, stages, slots_in_order(graph, stages, schedule), predicted->costs)
          : times_by_flops(graph, stages);
  const pipeline::Simulation run = simulate(stages.pipeline, schedule, times);
  double work = 0.0;
  for (const pipeline::DeviceRun& device : run.devices) {
    work += to_seconds(device.work) / stages.pipeline.devices;
  }
  const double end = to_seconds(run.makespan);
  return (end - work) / (predicted ? predicted->seconds : end);
}

PipelineReport report_pipeline(const Graph& graph, const Strategy& strategy, const Program& program,
                               const std::optional<StepCosts>& predicted) {
  const Stages stages = stages_of(graph, strategy);
  const size_t axis = strategy.schedule->axis;
  PipelineReport report{.axis = strategy.mesh[axis].name,
                        .schedule = strategy.schedule->name,
                        .microbatches = stages.pipeline.microbatches,
                        .idle = schedule_idle(graph, strategy, program, predicted),
                        .predicted = predicted.has_value()};
  std::vector<int64_t> bytes(stages.coordinates.size(), 0);
  for (const int64_t rank : distinct_ranks(program)) {
    const int64_t at = coordinate_of(program.mesh, rank, axis);
    for (size_t device = 0; device < bytes.size(); ++device) {
      if (std::ranges::binary_search(stages.coordinates[device], at)) {
        bytes[device] = std::max(bytes[device], plan_memory(program, rank).bytes);
      }
    }
  }
  const std::vector<double> flops = flops_of_chunks(graph, stages);
  double all = 0.0;
  for (const double each : flops) {
    all += each;
  }
  report.chunks.resize(flops.size());
  for (size_t op = 0; op < stages.chunk_of.size(); ++op) {
    ChunkReport& chunk = report.chunks[static_cast<size_t>(stages.chunk_of[op])];
    chunk.first = chunk.first < 0 ? static_cast<OpId>(op) : chunk.first;
    chunk.last = static_cast<OpId>(op);
  }
  for (size_t i = 0; i < report.chunks.size(); ++i) {
    const int device = stages.pipeline.device_of[i];
    report.chunks[i].device = device;
    report.chunks[i].ranks = stages.coordinates[static_cast<size_t>(device)];
    report.chunks[i].flops_part = all > 0.0 ? flops[i] / all : 0.0;
    report.chunks[i].peak_bytes = bytes[static_cast<size_t>(device)];
  }
  return report;
}

std::string describe(const Graph& graph, const PipelineReport& report) {
  std::string text = fmt::format(
      "pipeline along {}, order {}, {} microbatches: stages idle {:.1f} % by their {}\n",
      report.axis, report.schedule, report.microbatches, 100.0 * report.idle,
      report.predicted ? "predicted times" : "flops");
  for (const ChunkReport& chunk : report.chunks) {
    text += fmt::format("  {} {:>3}  {:5.1f} % of the flops  {:>10}  {} to {}\n",
                        chunk.ranks.size() == 1 ? "rank" : "ranks",
                        fmt::format("{}", fmt::join(chunk.ranks, " ")), 100.0 * chunk.flops_part,
                        format_bytes(chunk.peak_bytes), graph.op_name(chunk.first),
                        graph.op_name(chunk.last));
  }
  return text;
}

std::string schedule_csv(const Graph& graph, const Strategy& strategy) {
  check_has_stages(strategy);
  const Stages stages = stages_of(graph, strategy);
  return pipeline::write_csv(stages.pipeline, schedule_of(graph, strategy, stages));
}

}  // namespace hidup
