#include "schedule/csv_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/check.h"
#include "core/text.h"

namespace hidup::pipeline {
namespace {

constexpr std::array<std::string_view, 7> kMoves = {"UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F",
                                                    "RECV_F",  "SEND_B",  "RECV_B"};

template <typename... Args>
[[noreturn]] void fail_at(const MoveCell& move, fmt::format_string<Args...> format,
                          Args&&... args) {
  fail(ExitCode::usage, "row {}, cell {} ({}): {}", move.row, move.cell, shown(move.text),
       fmt::format(format, std::forward<Args>(args)...));
}

class Checker {
 public:
  Checker(const Pipeline& pipeline, const Schedule& schedule, const std::vector<MoveCell>& moves)
      : pipeline_(pipeline), split_(pipeline, schedule), cells_(pipeline, 0) {
    for (const std::vector<Slot>& slots : schedule) {
      for (size_t cell = 0; cell < slots.size(); ++cell) {
        for (const Task& task : slots[cell].tasks) {
          cells_[task] = static_cast<int>(cell);
        }
      }
    }
    for (const MoveCell& move : moves) {
      ++counts_[{move.word, move.chunk, move.microbatch}];
    }
  }

  void check(const MoveCell& move) const {
    if (pipeline_.device(move.chunk) != move.row) {
      fail_at(move, "stage {} lies in row {}", move.chunk, pipeline_.device(move.chunk));
    }
    if (move.word.starts_with("SEND") || move.word.starts_with("RECV")) {
      check_result(move);
    } else if (move.microbatch >= 0) {
      fail_at(move, "{} has no microbatch", move.word);
    } else if (move.word == "REDUCE_GRAD") {
      check_reduced(move);
    }
  }

 private:
  void check_result(const MoveCell& move) const {
    if (move.microbatch < 0 || move.microbatch >= pipeline_.microbatches) {
      fail_at(move, "{} needs a microbatch from 0 to {}", move.word, pipeline_.microbatches - 1);
    }
    const bool sends = move.word.starts_with("SEND");
    const bool forward = move.word.ends_with("F");
    const int other = move.chunk + (forward == sends ? 1 : -1);
    if (other < 0 || other >= pipeline_.chunks()) {
      fail_at(move, "stage {} has no neighbour to {}", move.chunk,
              sends ? "send to" : "receive from");
    }
    if (pipeline_.device(other) == move.row) {
      fail_at(move, "stages {} and {} lie in the same row", move.chunk, other);
    }
    const Task task{move.chunk, move.microbatch, forward ? Pass::forward : Pass::backward};
    if (sends ? cells_[task] > move.cell : cells_[task] < move.cell) {
      fail_at(move, "{} stands {} it, in cell {}", cell_of(task, split_(task)),
              sends ? "behind" : "before", cells_[task]);
    }
    if (count(move.word, move.chunk, move.microbatch) > 1) {
      fail_at(move, "the result moves more than once");
    }
    const std::string_view answer =
        forward ? (sends ? "RECV_F" : "SEND_F") : (sends ? "RECV_B" : "SEND_B");
    if (count(answer, other, move.microbatch) == 0) {
      fail_at(move, "{}{}{} is missing in row {}", other, answer, move.microbatch,
              pipeline_.device(other));
    }
  }

  void check_reduced(const MoveCell& move) const {
    for (int microbatch = 0; microbatch < pipeline_.microbatches; ++microbatch) {
      Task task{move.chunk, microbatch, Pass::weights};
      if (!split_(task)) {
        task.pass = Pass::backward;
      }
      if (cells_[task] > move.cell) {
        fail_at(move, "{} adds to the gradients later, in cell {}", cell_of(task, false),
                cells_[task]);
      }
    }
  }

  int count(std::string_view word, int chunk, int microbatch) const {
    const auto found = counts_.find({word, chunk, microbatch});
    return found == counts_.end() ? 0 : found->second;
  }

  const Pipeline& pipeline_;
  Split split_;
  TaskTable<int> cells_;
  std::map<std::tuple<std::string_view, int, int>, int> counts_;  // word, chunk, microbatch
};

}  // namespace

bool is_move(std::string_view word) {
  return std::ranges::find(kMoves, word) != kMoves.end();
}

void check_moves(const Pipeline& pipeline, const Schedule& schedule,
                 const std::vector<MoveCell>& moves) {
  const Checker checker(pipeline, schedule, moves);
  for (const MoveCell& move : moves) {
    checker.check(move);
  }
}

}  // namespace hidup::pipeline
