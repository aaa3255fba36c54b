// Times of a pipeline schedule, without a model or a program.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "core/units.h"
#include "schedule/schedule.h"

namespace hidup::pipeline {

inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();  // a time

struct Times {
  // One per chunk. A backward pass without a weights pass takes backward + weights.
  std::vector<Nanoseconds> forward, backward, weights;
  Nanoseconds move = 0;  // of a result to the next chunk, where that lies on another device
  std::optional<Nanoseconds> pair;  // of a slot with two tasks; nothing: the sum of their times
  // A move holds both devices: the first one after its slot, the other one before its own, as
  // DeepSpeed's pipeline sends and receives. Else results move beside the computation.
  bool moves_hold = false;
};

// Returns times.move where the tasks lie on different devices, and else 0.
Nanoseconds move_time(const Pipeline& pipeline, const Task& from, const Task& to,
                      const Times& times);
Nanoseconds duration_of(const Task& task, bool split, const Times& times);
Nanoseconds duration_of(const Slot& slot, const Split& split, const Times& times);

struct Ran {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

// The work of a device, and what it kept.
struct DeviceRun {
  std::vector<Ran> slots;  // in the schedule's order; without those that wait forever
  Nanoseconds work = 0;    // the sum of the slots' times
  int live = 0;     // most (chunk, microbatch)s whose forward pass is done and backward pass is not
  int pending = 0;  // most whose backward pass is done and weights pass is not
  int held = 0;     // most of both together

  // Returns the time from the start of the first slot to the end of the last one. The device idles
  // for span() - work in it, and for makespan - work from the start of the first device on.
  Nanoseconds span() const { return slots.empty() ? 0 : slots.back().end - slots.front().start; }
};

struct Simulation {
  std::vector<DeviceRun> devices;
  Nanoseconds makespan = 0;  // the last end
};

// Plays the schedule. A device does its slots one after the other. A slot starts when the device is
// free and all causes of its tasks (cause_of()) have ended, and moved if they were on another
// device; where moves hold, the device that receives does so when it is free, and nobody waits to
// send. The schedule's tasks are the pipeline's.
Simulation simulate(const Pipeline& pipeline, const Schedule& schedule, const Times& times);

// Returns a lower bound of the makespan of all orders of the schedule's slots: the maximum over
// devices of (earliest arrival + work + shortest tail). The arrival is the earliest time at which a
// task of the device can start, and the tail the time from the end of a task of the device to the
// end of the last task that needs it, both as if no device were busy. O(tasks).
Nanoseconds lower_bound(const Pipeline& pipeline, const Schedule& schedule, const Times& times);

}  // namespace hidup::pipeline
