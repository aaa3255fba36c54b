// A timing file, read back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/timing_file.h"

namespace hidup {

// What a timing file says about its run and its steps. Of the header, `memory`, `experts` and
// `validation` are not read.
struct TimingRecord {
  std::string path;  // for messages
  TimingHeader header;
  std::vector<int64_t> steps;     // that are done, in order; the next four have their times
  std::vector<double> wall_s;     // from the start of a step to the start of the next
  std::vector<double> compute_s;  // [steps, world], as the next two; NaN: the step was not timed
  std::vector<double> comm_s;
  std::vector<double> exposed_comm_s;
  // Of whole steps, by step, rank and instruction, all of them.
  std::vector<TimelineRow> timeline;
};

// The file may still be written, and its run may have been killed: steps that are there in part are
// left out. Forks: for processes of one thread. Throws Error(file) where it cannot be read, is no
// timing file or contradicts itself.
TimingRecord read_timing_file(const std::string& path);

// The steps up to `last` whose rows are not in the file, though its run did them; in order. The
// file may still be written. Throws Error(file).
std::vector<int64_t> missing_steps(const std::string& path, int64_t last);

}  // namespace hidup
