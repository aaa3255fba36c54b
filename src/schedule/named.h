// Schedules that have a name: rows of parameters of two generators.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schedule/generate.h"
#include "schedule/schedule.h"
#include "schedule/simulate.h"

namespace hidup::pipeline {

// A limit of device d of D with v chunks each, rounded up:
// per_depth (D - d) + per_device D + per_row (v - 1) D + plus.
struct LimitRow {
  double per_depth = 0.0;
  double per_device = 0.0;
  double per_row = 0.0;
  int plus = 0;
};

// The generator. Forward first: a device does forward passes while it has room, in groups of as
// many microbatches as there are devices, and else backward passes (generate.h). Modulo: the best
// order of several that software pipelining gives (modulo.h), improved by a local search
// (improve.h).
enum class Generator { forward_first, modulo };

struct NamedSchedule {
  std::string_view name;
  std::string_view doc;     // one line, for --help
  std::string_view source;  // papers
  Generator generator = Generator::forward_first;
  Layout layout = Layout::loop;
  int chunks_per_device = 1;     // by default; only a loop of several may have other numbers
  bool split = false;            // with weights passes
  bool pairs = false;            // forward and backward passes share slots
  bool takes_k = false;          // per_depth is multiplied by k
  std::optional<LimitRow> live;  // nothing: no limit
  std::optional<LimitRow> held;
};

std::span<const NamedSchedule> named_schedules();
const NamedSchedule* find_schedule(std::string_view name);  // null where no schedule has the name
std::string schedule_names();                               // "gpipe, 1f1b, ... or dualpipe-v"
std::string schedules_help();                               // a line each
// Returns " (did you mean 1f1b?)" for a name that is nearly one, else nothing.
std::string schedule_hint(std::string_view name);

// A person's wishes.
struct ScheduleRequest {
  int chunks = 1;
  std::optional<int> devices;  // nothing: as the name says
  int microbatches = 1;
  int k = 2;                // of kfkb
  std::optional<int> live;  // of device 0, whose limits are the largest; the others' in proportion
};

// Returns where the chunks lie. Throws Error(usage) where the name cannot have so many chunks on so
// many devices.
Pipeline named_pipeline(const NamedSchedule& named, const ScheduleRequest& request);

// Returns the limits of every device.
std::vector<Limits> named_limits(const NamedSchedule& named, const Pipeline& pipeline,
                                 const ScheduleRequest& request);

// Throws Error(usage) where request.live is too small for the schedule.
Schedule make_schedule(const NamedSchedule& named, const Pipeline& pipeline,
                       const std::vector<Limits>& limits, const Times& times);

}  // namespace hidup::pipeline
