// Schedules as CSV files, as torch.distributed.pipelining writes and reads them.
//
// A row per device, a cell per slot. A cell is a task, 2F3: chunk 2, forward pass, microbatch 3; B
// is a whole backward pass, I one of which the weights pass W is a task of its own. Older files
// write B for I: a B is the input's gradient alone where the file has a W of the chunk and
// microbatch. (0F7;7B3)OVERLAP_F_B is a slot of two tasks. An empty cell is an empty slot. UNSHARD,
// RESHARD, REDUCE_GRAD, SEND_F, RECV_F, SEND_B and RECV_B cells say when parameters and results
// move.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace hidup::pipeline {

struct ReadSchedule {
  Pipeline pipeline;  // as many devices as rows; a chunk lies on the device of its first cell
  Schedule schedule;  // verified; cells about moves are empty slots
};

// Reads a schedule of so many chunks and microbatches. Throws Error(usage) "row R, cell C (TEXT):
// PROBLEM", both counted from 0, for cells that have another form, moves that do not fit to the
// tasks, and what verify() refuses.
ReadSchedule read_csv(std::string_view text, int chunks, int microbatches);

// Returns the number of chunks that the cells name: one more than the largest; at least 1.
int chunks_in_csv(std::string_view text);

// Returns the text that read_csv() reads, a line per device.
std::string write_csv(const Pipeline& pipeline, const Schedule& schedule);

// Returns the cell of a slot. `split`: null if it is not known, so that I is written B.
std::string cell_of(const Slot& slot, const Split* split);

}  // namespace hidup::pipeline
