#include "schedule/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "schedule/csv_moves.h"
#include "schedule/verify.h"

namespace hidup::pipeline {
namespace {

constexpr std::string_view kOverlap = "OVERLAP_F_B";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// A number, a word and perhaps a number: 2F3, 0UNSHARD.
struct Action {
  int chunk = 0;
  std::string_view word;
  int microbatch = -1;  // -1: none
};

// Reads the number at the start of the text and removes it; nothing if there is none.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || number < 0 || text.front() == '-') {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return number;
}

std::optional<Action> parse_action(std::string_view text) {
  const std::optional<int> chunk = take_number(text);
  if (!chunk) {
    return std::nullopt;
  }
  Action action{.chunk = *chunk};
  action.word = text.substr(0, text.find_first_of("0123456789"));
  text.remove_prefix(action.word.size());
  if (!text.empty()) {
    const std::optional<int> microbatch = take_number(text);
    if (!microbatch || !text.empty()) {
      return std::nullopt;
    }
    action.microbatch = *microbatch;
  }
  return action;
}

class Reader {
 public:
  Reader(int chunks, int microbatches)
      : result_{.pipeline = {.microbatches = microbatches,
                             .device_of = std::vector<int>(at(chunks), -1)}} {}

  ReadSchedule read(std::string_view text) && {
    while (text.ends_with('\n') || text.ends_with('\r')) {
      text.remove_suffix(1);
    }
    if (text.empty()) {
      fail(ExitCode::usage, "the file is empty");
    }
    for (const std::string_view line : hidup::split(text, '\n')) {
      row_ = result_.pipeline.devices++;
      cell_ = 0;
      result_.schedule.emplace_back();
      for (const std::string_view cell : hidup::split(line, ',')) {
        text_ = trimmed(cell);
        result_.schedule.back().push_back(read_cell());
        ++cell_;
      }
    }
    const std::vector<int>& device_of = result_.pipeline.device_of;
    for (size_t chunk = 0; chunk < device_of.size(); ++chunk) {
      if (device_of[chunk] < 0) {
        fail(ExitCode::usage, "no row has a task of stage {}", chunk);
      }
    }
    verify(result_.pipeline, result_.schedule);
    check_weights();
    check_moves(result_.pipeline, result_.schedule, moves_);
    return std::move(result_);
  }

 private:
  Slot read_cell() {
    if (text_.empty()) {
      return {};
    }
    if (text_.starts_with('(')) {
      return read_overlap();
    }
    const Action action = read_action(text_);
    if (is_move(action.word)) {
      moves_.push_back({row_, cell_, text_, action.word, action.chunk, action.microbatch});
      return {};
    }
    return {{read_task(action)}};
  }

  Slot read_overlap() {
    const size_t close = text_.find(')');
    if (close == std::string_view::npos || text_.substr(close + 1) != kOverlap) {
      fail_here("expected (TASK;TASK){}", kOverlap);
    }
    Slot slot;
    for (const std::string_view part : hidup::split(text_.substr(1, close - 1), ';')) {
      slot.tasks.push_back(read_task(read_action(part)));
    }
    if (slot.tasks.size() != 2 || slot.tasks[0].pass != Pass::forward ||
        slot.tasks[1].pass != Pass::backward) {
      fail_here("expected a forward and a backward pass");
    }
    return slot;
  }

  Action read_action(std::string_view text) {
    const std::optional<Action> action = parse_action(text);
    if (!action || action->word.empty()) {
      fail_here("expected stage, pass and microbatch, such as 2F3");
    }
    if (action->chunk >= result_.pipeline.chunks()) {
      fail_here("there is no stage {}: the stages are 0 to {}", action->chunk,
                result_.pipeline.chunks() - 1);
    }
    return *action;
  }

  Task read_task(const Action& action) {
    if (action.word != "F" && action.word != "B" && action.word != "I" && action.word != "W") {
      fail_here("unknown pass {}: expected F, B, I or W", shown(action.word));
    }
    if (action.microbatch < 0) {
      fail_here("the microbatch is missing");
    }
    if (action.microbatch >= result_.pipeline.microbatches) {
      fail_here("there is no microbatch {}: the microbatches are 0 to {}", action.microbatch,
                result_.pipeline.microbatches - 1);
    }
    int& device = result_.pipeline.device_of[at(action.chunk)];
    device = device < 0 ? row_ : device;
    const Pass pass = action.word == "F"   ? Pass::forward
                      : action.word == "W" ? Pass::weights
                                           : Pass::backward;
    const Task task{action.chunk, action.microbatch, pass};
    if (action.word == "I") {
      inputs_.push_back({task, row_, cell_});
    }
    return task;
  }

  void check_weights() const {
    const Split split(result_.pipeline, result_.schedule);
    for (const Input& input : inputs_) {
      if (!split(input.task)) {
        const Task weights{input.task.chunk, input.task.microbatch, Pass::weights};
        fail(ExitCode::usage, "row {}, cell {} ({}): the weights pass {} is missing", input.row,
             input.cell, cell_of(input.task, true), cell_of(weights, true));
      }
    }
  }

  template <typename... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::usage, "row {}, cell {} ({}): {}", row_, cell_, shown(text_),
         fmt::format(format, std::forward<Args>(args)...));
  }

  struct Input {  // a task that is written I
    Task task;
    int row = 0;
    int cell = 0;
  };

  ReadSchedule result_;
  std::vector<MoveCell> moves_;
  std::vector<Input> inputs_;
  int row_ = 0;
  int cell_ = 0;
  std::string_view text_;  // of the cell
};

}  // namespace

ReadSchedule read_csv(std::string_view text, int chunks, int microbatches) {
  return Reader(chunks, microbatches).read(text);
}

std::string cell_of(const Slot& slot, const Split* split) {
  std::string text;
  for (const Task& task : slot.tasks) {
    text += (text.empty() ? "" : ";") + cell_of(task, split != nullptr && (*split)(task));
  }
  return slot.tasks.size() > 1 ? fmt::format("({}){}", text, kOverlap) : text;
}

int chunks_in_csv(std::string_view text) {
  int chunks = 1;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(",;()\r\n"), text.size());
    if (const std::optional<Action> action = parse_action(trimmed(text.substr(0, end)));
        action && action->chunk < std::numeric_limits<int>::max()) {
      chunks = std::max(chunks, action->chunk + 1);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return chunks;
}

std::string write_csv(const Pipeline& pipeline, const Schedule& schedule) {
  const Split split(pipeline, schedule);
  std::string text;
  for (const std::vector<Slot>& slots : schedule) {
    for (size_t i = 0; i < slots.size(); ++i) {
      text += (i == 0 ? "" : ",") + cell_of(slots[i], &split);
    }
    text += '\n';
  }
  return text;
}

}  // namespace hidup::pipeline
