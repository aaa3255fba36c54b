// The reader of timing files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/timing_file.h"

namespace hidup {

// The content of a timing file. The header's `memory`, `experts` and `validation` are not read.
struct TimingRecord {
  std::string path;  // for messages
  TimingHeader header;
  std::vector<int64_t> steps;     // done steps in order; the next four have their times
  std::vector<double> wall_s;     // from the start of a step to the start of the next
  std::vector<double> compute_s;  // [steps, world], as the next two; NaN: the step was not timed
  std::vector<double> comm_s;
  std::vector<double> exposed_comm_s;
  // Rows of complete steps, sorted by step, rank and instruction.
  std::vector<TimelineRow> timeline;
};

// Reads a file that may still be written, or whose run was killed; incomplete steps are left out.
// Forks, so the process must have one thread. Throws Error(file) where the file cannot be read, is
// no timing file or contradicts itself.
TimingRecord read_timing_file(const std::string& path);

// Returns the steps up to `last`, in order, whose rows are not in the file though its run did them.
// The file may still be written. Throws Error(file).
std::vector<int64_t> missing_steps(const std::string& path, int64_t last);

}  // namespace hidup
