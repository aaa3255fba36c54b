#include "schedule/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/csv.h"

namespace hidup::pipeline {
namespace {

// Times of slots, and how many characters a slot's text has.
struct Sizes {
  Nanoseconds shortest = std::numeric_limits<Nanoseconds>::max();  // slot that takes time
  size_t longest_text = 1;
};

// Returns the text of a slot: 2F3, or 0F7+7B3 for a pair.
std::string text_of(const Slot& slot, const Split& split) {
  std::string text;
  for (const Task& task : slot.tasks) {
    text += (text.empty() ? "" : "+") + cell_of(task, split(task));
  }
  return text;
}

// Returns the letter of a slot where its text has no room.
char letter_of(const Slot& slot) {
  if (slot.tasks.size() > 1) {
    return 'X';
  }
  return slot.tasks[0].pass == Pass::forward    ? 'F'
         : slot.tasks[0].pass == Pass::backward ? 'B'
                                                : 'W';
}

Sizes sizes_of(const Schedule& schedule, const Simulation& simulation, const Split& split) {
  Sizes sizes;
  for (size_t device = 0; device < schedule.size(); ++device) {
    for (size_t i = 0; i < schedule[device].size(); ++i) {
      const Ran& ran = simulation.devices[device].slots[i];
      if (ran.end > ran.start) {
        sizes.shortest = std::min(sizes.shortest, ran.end - ran.start);
      }
      if (schedule[device][i].tasks.size() == 1) {
        sizes.longest_text =
            std::max(sizes.longest_text, text_of(schedule[device][i], split).size());
      }
    }
  }
  return sizes;
}

}  // namespace

std::string draw_lanes(const Pipeline& pipeline, const Schedule& schedule,
                       const Simulation& simulation, int width) {
  const Split split(pipeline, schedule);
  const Sizes sizes = sizes_of(schedule, simulation, split);
  const size_t label = fmt::format("{}", schedule.size() - 1).size();
  const auto room = static_cast<double>(width) - static_cast<double>(label) - 2;
  const double shortest_slots =
      static_cast<double>(simulation.makespan) / static_cast<double>(sizes.shortest);
  const bool texts = shortest_slots * static_cast<double>(sizes.longest_text + 1) <= room;
  const double per_slot = texts ? static_cast<double>(sizes.longest_text + 1)
                                : std::max(1.0, std::floor(room / shortest_slots));
  const auto column = [&](Nanoseconds time) {
    return static_cast<size_t>(
        std::llround(static_cast<double>(time) * per_slot / static_cast<double>(sizes.shortest)));
  };
  const size_t columns = std::min(column(simulation.makespan), static_cast<size_t>(room));
  std::string text;
  for (size_t device = 0; device < schedule.size(); ++device) {
    std::string lane(columns, '.');
    for (size_t i = 0; i < schedule[device].size(); ++i) {
      const Slot& slot = schedule[device][i];
      const Ran& ran = simulation.devices[device].slots[i];
      const size_t begin = column(ran.start);
      const size_t end = std::min(column(ran.end), columns);
      if (slot.tasks.empty() || begin >= end) {
        continue;
      }
      std::string shown = texts ? text_of(slot, split) : std::string(1, letter_of(slot));
      shown.resize(end - begin, texts ? ' ' : '-');
      lane.replace(begin, end - begin, shown);
    }
    text += fmt::format("{:>{}}  {}\n", device, label, lane);
  }
  if (columns < column(simulation.makespan)) {
    text +=
        fmt::format("The lanes end at {} of {}: there is no room for more.\n",
                    format_seconds(to_seconds(simulation.makespan) * static_cast<double>(columns) /
                                   static_cast<double>(column(simulation.makespan))),
                    format_seconds(to_seconds(simulation.makespan)));
  }
  return text;
}

}  // namespace hidup::pipeline
