#include "schedule/simulate.h"

#include <algorithm>

namespace hidup::pipeline {
namespace {

// Returns the earliest start of a slot on a free device, or of its first move where moves hold;
// kNever if a cause has not ended yet.
Nanoseconds arrival(const Pipeline& pipeline, const Slot& slot, const Times& times,
                    const TaskTable<Nanoseconds>& ends) {
  Nanoseconds latest = 0;
  for (const Task& task : slot.tasks) {
    const std::optional<Task> cause = cause_of(pipeline, task);
    if (cause && ends[*cause] == kNever) {
      return kNever;
    }
    if (cause) {
      const Nanoseconds move = times.moves_hold ? 0 : move_time(pipeline, *cause, task, times);
      latest = std::max(latest, ends[*cause] + move);
    }
  }
  return latest;
}

// The times for which moves hold a device.
struct Held {
  Nanoseconds before = 0;  // a slot: it receives
  Nanoseconds after = 0;   // a slot: it sends
};

Held held_by(const Pipeline& pipeline, const Slot& slot, const Times& times) {
  Held held;
  for (const Task& task : slot.tasks) {
    if (!times.moves_hold || task.pass == Pass::weights) {
      continue;
    }
    if (const std::optional<Task> cause = cause_of(pipeline, task)) {
      held.before += move_time(pipeline, *cause, task, times);
    }
    if (const std::optional<Task> next = next_of(pipeline, task)) {
      held.after += move_time(pipeline, task, *next, times);
    }
  }
  return held;
}

// Counts what a device must keep, slot by slot.
void count_kept(const std::vector<Slot>& slots, const Split& split, DeviceRun& run) {
  int live = 0;
  int pending = 0;
  for (const Slot& slot : slots) {
    for (const Task& task : slot.tasks) {
      live += task.pass == Pass::forward ? 1 : task.pass == Pass::backward ? -1 : 0;
      pending += task.pass == Pass::weights ? -1 : task.pass == Pass::backward && split(task);
    }
    run.live = std::max(run.live, live);
    run.pending = std::max(run.pending, pending);
    run.held = std::max(run.held, live + pending);
  }
}

// Returns the tasks in an order in which causes stand first.
std::vector<Task> in_causal_order(const Pipeline& pipeline, const Split& split) {
  std::vector<Task> tasks;
  for (int microbatch = 0; microbatch < pipeline.microbatches; ++microbatch) {
    for (int chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      tasks.push_back({chunk, microbatch, Pass::forward});
    }
    for (int chunk = pipeline.chunks() - 1; chunk >= 0; --chunk) {
      tasks.push_back({chunk, microbatch, Pass::backward});
      if (split(tasks.back())) {
        tasks.push_back({chunk, microbatch, Pass::weights});
      }
    }
  }
  return tasks;
}

}  // namespace

Nanoseconds move_time(const Pipeline& pipeline, const Task& from, const Task& to,
                      const Times& times) {
  return pipeline.device(from.chunk) == pipeline.device(to.chunk) ? 0 : times.move;
}

Nanoseconds duration_of(const Task& task, bool split, const Times& times) {
  const size_t chunk = at(task.chunk);
  switch (task.pass) {
    case Pass::forward:
      return times.forward[chunk];
    case Pass::backward:
      return times.backward[chunk] + (split ? 0 : times.weights[chunk]);
    case Pass::weights:
      break;
  }
  return times.weights[chunk];
}

Nanoseconds duration_of(const Slot& slot, const Split& split, const Times& times) {
  if (slot.tasks.size() == 2 && times.pair) {
    return *times.pair;
  }
  Nanoseconds sum = 0;
  for (const Task& task : slot.tasks) {
    sum += duration_of(task, split(task), times);
  }
  return sum;
}

Simulation simulate(const Pipeline& pipeline, const Schedule& schedule, const Times& times) {
  const Split split(pipeline, schedule);
  TaskTable<Nanoseconds> ends(pipeline, kNever);
  Simulation result{.devices = std::vector<DeviceRun>(schedule.size())};
  std::vector<Nanoseconds> free(schedule.size(), 0);
  bool advanced = true;
  while (advanced) {
    advanced = false;
    for (size_t device = 0; device < schedule.size(); ++device) {
      DeviceRun& run = result.devices[device];
      while (run.slots.size() < schedule[device].size()) {
        const Slot& slot = schedule[device][run.slots.size()];
        const Nanoseconds ready = arrival(pipeline, slot, times, ends);
        if (ready == kNever) {
          break;
        }
        const Nanoseconds duration = duration_of(slot, split, times);
        const Held held = held_by(pipeline, slot, times);
        const Nanoseconds start = std::max(ready, free[device]) + held.before;
        free[device] = start + duration + held.after;
        run.slots.push_back({start, start + duration});
        run.work += duration;
        for (const Task& task : slot.tasks) {
          ends[task] = start + duration;
        }
        result.makespan = std::max(result.makespan, start + duration);
        advanced = true;
      }
    }
  }
  for (size_t device = 0; device < schedule.size(); ++device) {
    count_kept(schedule[device], split, result.devices[device]);
  }
  return result;
}

Nanoseconds lower_bound(const Pipeline& pipeline, const Schedule& schedule, const Times& times) {
  const Split split(pipeline, schedule);
  TaskTable<Nanoseconds> length(pipeline, 0);
  std::vector<Nanoseconds> work(schedule.size(), 0);
  for (size_t device = 0; device < schedule.size(); ++device) {
    for (const Slot& slot : schedule[device]) {
      const Nanoseconds duration = duration_of(slot, split, times);
      work[device] += duration;
      for (const Task& task : slot.tasks) {
        length[task] = duration;
      }
    }
  }
  std::vector<Nanoseconds> earliest(schedule.size(), kNever);
  std::vector<Nanoseconds> shortest(schedule.size(), kNever);
  TaskTable<Nanoseconds> heads(pipeline, 0);
  TaskTable<Nanoseconds> tails(pipeline, 0);
  const std::vector<Task> tasks = in_causal_order(pipeline, split);
  for (const Task& task : tasks) {
    if (const std::optional<Task> cause = cause_of(pipeline, task)) {
      heads[task] = heads[*cause] + length[*cause] + move_time(pipeline, *cause, task, times);
    }
    Nanoseconds& least = earliest[at(pipeline.device(task.chunk))];
    least = std::min(least, heads[task]);
  }
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
    if (const std::optional<Task> cause = cause_of(pipeline, *task)) {
      tails[*cause] = std::max(
          tails[*cause], move_time(pipeline, *cause, *task, times) + length[*task] + tails[*task]);
    }
    Nanoseconds& least = shortest[at(pipeline.device(task->chunk))];
    least = std::min(least, tails[*task]);
  }
  Nanoseconds bound = 0;
  for (size_t device = 0; device < schedule.size(); ++device) {
    bound = std::max(bound, earliest[device] + work[device] + shortest[device]);
  }
  return bound;
}

}  // namespace hidup::pipeline
