// Makes a schedule by letting devices work: each takes its next task by a rule when it is free.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/simulate.h"

namespace hidup::pipeline {

inline constexpr int kNoLimit = std::numeric_limits<int>::max();

// A pass and its turn: the device does those with lesser turns first.
struct Turn {
  Task task;
  int64_t turn = 0;
};

// Most (chunk, microbatch)s that a device keeps, as DeviceRun counts them. A forward pass waits for
// room.
struct Limits {
  int live = kNoLimit;
  int held = kNoLimit;
};

struct Rule {
  struct Device {
    std::vector<Turn> forward, backward;  // each sorted by turn; all passes of the device
    Limits limits;
  };
  std::vector<Device> devices;
  bool split = false;  // every backward pass has a weights pass
  bool pairs = false;  // a forward and a backward pass that can both start share a slot, unsplit
  // True: the forward passes of a device keep their order, and so do its backward passes. False: a
  // pass may also start before others of its kind, as long as the limits then hold for all that it
  // overtakes. It overtakes at most `ahead` passes.
  bool in_order = true;
  int ahead = 0;
  // Before its first backward pass a device lets a pass overtake many others, but only if the pass
  // ends before any of these is known to arrive.
  bool fills = false;
};

// Returns the trace of one run with these times, or nothing if the limits stop it halfway.
//
// A free device starts the pass with the least turn of those that can start. If there is none it
// does the oldest weights pass. That one waits if a pass will arrive before its end, unless the
// wait made this device the one that idled most: on the others the wait costs nothing, and a late
// pass delays the rest of the pipeline.
std::optional<Schedule> generate(const Pipeline& pipeline, const Times& times, const Rule& rule);

}  // namespace hidup::pipeline
