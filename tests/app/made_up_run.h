// Timing files of invented runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cost/busy.h"
#include "io/timing_file.h"

namespace hidup {

// Returns the header of a run on one host; the caller fills in strategy, program and prediction.
inline TimingHeader made_up_header(int64_t ranks) {
  const auto count = static_cast<size_t>(ranks);
  TimingHeader header;
  header.run = {.program_version = "1.2.3",
                .git_commit = "abc",
                .command_line = "hidup train",
                .started_at = "2026-01-31T23:59:59Z",
                .model = "made-up",
                .world_size = ranks,
                .device = "CPU",
                .hostnames = std::vector<std::string>(count, "host"),
                .libraries = {"MPI 1", "HDF5 1", "BLAS 2"}};
  header.memory = {.peak_bytes = std::vector<int64_t>(count, 1),
                   .parameter_bytes = std::vector<int64_t>(count, 1)};
  return header;
}

// Returns the start and the end of an instruction.
using MadeUpTimes = std::function<Interval(int64_t step, int64_t rank, size_t instruction)>;

inline std::vector<TimelineRow> made_up_timeline(const TimingHeader& header, int64_t step,
                                                 const MadeUpTimes& times) {
  std::vector<TimelineRow> rows;
  for (int64_t rank = 0; rank < header.run.world_size; ++rank) {
    for (size_t i = 0; i < header.program.rows.size(); ++i) {
      const Interval ran = times(step, rank, i);
      rows.push_back({step, rank, static_cast<int64_t>(i), ran.start_s, ran.end_s});
    }
  }
  return rows;
}

// Appends a step of 100 s: rank r computes for s + r seconds in step s and communicates for 10 s +
// r, of which r are exposed.
inline void append_made_up(TimingFile& file, const TimingHeader& header, int64_t step,
                           const MadeUpTimes& times) {
  std::vector<double> compute;
  std::vector<double> comm;
  std::vector<double> exposed;
  const auto at = static_cast<double>(step);
  for (int64_t rank = 0; rank < header.run.world_size; ++rank) {
    compute.push_back(at + static_cast<double>(rank));
    comm.push_back(10.0 * at + static_cast<double>(rank));
    exposed.push_back(static_cast<double>(rank));
  }
  file.append_iteration({.step = step, .wall_s = 100.0 * at}, {compute, comm, exposed}, {});
  file.append_timeline(made_up_timeline(header, step, times));
}

}  // namespace hidup
