// The order in which the stages of a pipeline work, as a part of a strategy.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schedule/schedule.h"

namespace hidup {

// The order in which the stages along an axis work (Strategy::schedule).
struct StageSchedule {
  size_t axis = 0;
  std::string name;         // of pipeline::named_schedules(), or kCustomSchedule
  int k = 2;                // of the schedule kfkb
  std::optional<int> live;  // most live microbatches of the first device; nothing: as the name says
  pipeline::Schedule custom = {};
  // Operations, rising, with which another chunk begins on the device of the chunk before.
  std::vector<OpId> cuts = {};

  bool operator==(const StageSchedule&) const = default;
};

inline constexpr const char* kCustomSchedule = "custom";

}  // namespace hidup
