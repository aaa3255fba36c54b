#include "schedule/improve.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/random.h"

namespace hidup::pipeline {
namespace {

constexpr int64_t kFarthest = 6;  // places that a slot moves at once

struct SlotNumber {
  size_t device = 0;
  size_t slot = 0;
};

// Returns the places of a chain of slots from the first start to the last end, in which each starts
// as soon as the one before it allows. The last one is first.
std::vector<SlotNumber> critical_path(const Pipeline& pipeline, const Schedule& schedule,
                                      const Simulation& simulation) {
  TaskTable<SlotNumber> places(pipeline, {});
  SlotNumber place;
  for (size_t device = 0; device < schedule.size(); ++device) {
    for (size_t slot = 0; slot < schedule[device].size(); ++slot) {
      for (const Task& task : schedule[device][slot].tasks) {
        places[task] = {device, slot};
      }
      if (simulation.devices[device].slots[slot].end == simulation.makespan) {
        place = {device, slot};
      }
    }
  }
  std::vector<SlotNumber> path;
  while (true) {
    path.push_back(place);
    const std::vector<Ran>& slots = simulation.devices[place.device].slots;
    const Nanoseconds start = slots[place.slot].start;
    if (place.slot > 0 && slots[place.slot - 1].end == start) {
      --place.slot;
      continue;
    }
    std::optional<SlotNumber> latest;  // the cause that ended last
    Nanoseconds latest_end = 0;
    for (const Task& task : schedule[place.device][place.slot].tasks) {
      if (const std::optional<Task> cause = cause_of(pipeline, task)) {
        const SlotNumber& from = places[*cause];
        const Nanoseconds end = simulation.devices[from.device].slots[from.slot].end;
        if (!latest || end > latest_end) {
          latest = from;
          latest_end = end;
        }
      }
    }
    if (start == 0 || !latest) {
      return path;
    }
    place = *latest;
  }
}

bool holds(const Schedule& schedule, const Simulation& simulation, std::span<const Limits> limits) {
  for (size_t device = 0; device < schedule.size(); ++device) {
    const DeviceRun& run = simulation.devices[device];
    if (run.slots.size() < schedule[device].size() || run.live > limits[device].live ||
        run.held > limits[device].held) {
      return false;
    }
  }
  return true;
}

void move_slot(std::vector<Slot>& slots, size_t from, size_t to) {
  const auto begin = slots.begin();
  const auto first = begin + static_cast<ptrdiff_t>(from);
  const auto last = begin + static_cast<ptrdiff_t>(to);
  if (from < to) {
    std::rotate(first, first + 1, last + 1);
  } else {
    std::rotate(last, first, first + 1);
  }
}

}  // namespace

Schedule improve(const Pipeline& pipeline, Schedule schedule, const Times& times,
                 std::span<const Limits> limits, int64_t rounds) {
  const Nanoseconds bound = lower_bound(pipeline, schedule, times);
  Simulation simulation = simulate(pipeline, schedule, times);
  std::vector<SlotNumber> path = critical_path(pipeline, schedule, simulation);
  const RandomStream random = random_stream(0, "schedule");
  for (uint64_t round = 0; round < static_cast<uint64_t>(rounds) && simulation.makespan > bound;
       ++round) {
    const SlotNumber from = path[random.word(2 * round) % path.size()];
    std::vector<Slot>& slots = schedule[from.device];
    const int64_t by =
        static_cast<int64_t>(random.word(2 * round + 1) % (2 * kFarthest + 1)) - kFarthest;
    const int64_t to = static_cast<int64_t>(from.slot) + by;
    if (by == 0 || to < 0 || to >= static_cast<int64_t>(slots.size())) {
      continue;
    }
    move_slot(slots, from.slot, static_cast<size_t>(to));
    Simulation changed = simulate(pipeline, schedule, times);
    if (holds(schedule, changed, limits) && changed.makespan <= simulation.makespan) {
      simulation = std::move(changed);
      path = critical_path(pipeline, schedule, simulation);
    } else {
      move_slot(slots, static_cast<size_t>(to), from.slot);
    }
  }
  return schedule;
}

}  // namespace hidup::pipeline
