// Cells of a CSV file that are no tasks but say when parameters and results move.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace hidup::pipeline {

struct MoveCell {
  int row = 0;
  int cell = 0;
  std::string_view text;  // of the cell
  std::string_view word;  // UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, RECV_F, SEND_B or RECV_B
  int chunk = 0;
  int microbatch = -1;  // -1: none
};

// Returns true if the word is one of a move.
bool is_move(std::string_view word);

// Checks the moves of a file against those that its tasks, which are verified, need. Chunks are in
// range. A result is sent after its task and received before the task that needs it, each once, and
// only between devices; if a result is sent it is received. Gradients are reduced after the last
// task that adds to them. Throws Error(usage) as read_csv().
void check_moves(const Pipeline& pipeline, const Schedule& schedule,
                 const std::vector<MoveCell>& moves);

}  // namespace hidup::pipeline
