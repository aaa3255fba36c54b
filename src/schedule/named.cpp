#include "schedule/named.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "schedule/improve.h"
#include "schedule/modulo.h"

namespace hidup::pipeline {
namespace {

constexpr LimitRow kOnePerDepth = {.per_depth = 1};
constexpr LimitRow kTwoPerDepth = {.per_depth = 2, .per_row = 1, .plus = -1};

constexpr std::array kSchedules = {
    NamedSchedule{.name = "gpipe",
                  .doc = "all forward passes, then all backward passes",
                  .source = "Huang et al., NeurIPS 2019"},
    NamedSchedule{.name = "1f1b",
                  .doc = "forward and backward passes take turns as early as they can",
                  .source = "Narayanan et al., SOSP 2019, with flushes",
                  .live = kOnePerDepth},
    NamedSchedule{.name = "interleaved",
                  .doc = "1f1b with several chunks per device",
                  .source = "Narayanan et al., SC 2021",
                  .chunks_per_device = 2,
                  .live = kTwoPerDepth},
    NamedSchedule{.name = "kfkb",
                  .doc = "1f1b with k times as many live microbatches (--k)",
                  .source = "Ada-Grouper, 2023",
                  .takes_k = true,
                  .live = kOnePerDepth},
    NamedSchedule{.name = "dapple",
                  .doc = "1f1b with early forward passes, so that moves are hidden",
                  .source = "Fan et al., PPoPP 2021",
                  .live = kTwoPerDepth},
    NamedSchedule{.name = "zb-h1",
                  .doc = "1f1b whose weights passes fill idle times, in the same memory",
                  .source = "Qi et al., ICLR 2024",
                  .split = true,
                  .live = kOnePerDepth,
                  .held = LimitRow{.per_device = 1}},
    NamedSchedule{.name = "zb-h2",
                  .doc = "zb-h1 with twice the live microbatches",
                  .source = "Qi et al., ICLR 2024",
                  .split = true,
                  .live = kTwoPerDepth},
    NamedSchedule{.name = "zb-v",
                  .doc = "two chunks per device in a V, in the memory of 1f1b",
                  .source = "Qi et al., NeurIPS 2024",
                  .generator = Generator::modulo,
                  .layout = Layout::v,
                  .chunks_per_device = 2,
                  .split = true,
                  .live = LimitRow{.per_device = 2},
                  .held = LimitRow{.per_device = 2}},
    NamedSchedule{.name = "v-half",
                  .doc = "the same in half the memory",
                  .source = "Qi et al., NeurIPS 2024",
                  .generator = Generator::modulo,
                  .layout = Layout::v,
                  .chunks_per_device = 2,
                  .split = true,
                  .live = LimitRow{.per_device = 1, .plus = 2},
                  .held = LimitRow{.per_device = 1, .plus = 2}},
    NamedSchedule{.name = "v-min",
                  .doc = "the same in a third of the memory",
                  .source = "Qi et al., NeurIPS 2024",
                  .generator = Generator::modulo,
                  .layout = Layout::v,
                  .chunks_per_device = 2,
                  .split = true,
                  .live = LimitRow{.per_device = 2.0 / 3, .plus = 2},
                  .held = LimitRow{.per_device = 2.0 / 3, .plus = 2}},
    NamedSchedule{.name = "dualpipe-v",
                  .doc = "a V in which forward and backward passes run at the same time (--pair)",
                  .source = "DeepSeek, 2025",
                  .generator = Generator::modulo,
                  .layout = Layout::v,
                  .chunks_per_device = 2,
                  .split = true,
                  .pairs = true,
                  .live = LimitRow{.per_device = 2, .plus = 1}},
};

constexpr int kMostHop = 3;
constexpr int kHops = 81;                              // kMostHop to the power of 4 rows
constexpr std::array kAheads = {0, 1, 2, 3, 7, 1000};  // Rule::ahead
constexpr int64_t kOrderWork = 2'000'000;              // tasks of all orders that are tried
constexpr int64_t kImproveRounds = 20'000;
constexpr int64_t kImproveWork = 24'000'000;  // tasks of all rounds

int64_t tasks_of(const Pipeline& pipeline) {
  return 3 * int64_t{pipeline.chunks()} * pipeline.microbatches;
}

int limit_of(const std::optional<LimitRow>& row, const Pipeline& pipeline, int device, int k) {
  if (!row) {
    return kNoLimit;
  }
  const int rows = pipeline.chunks() / pipeline.devices;
  const double limit = row->per_depth * k * (pipeline.devices - device) +
                       row->per_device * pipeline.devices +
                       row->per_row * (rows - 1) * pipeline.devices + row->plus;
  return static_cast<int>(std::min(std::ceil(limit), 1e9));
}

// Returns limit x live / largest, rounded up.
int scaled(int limit, int live, int largest) {
  return static_cast<int>((int64_t{limit} * live + largest - 1) / largest);
}

// Returns the passes of every device in groups of microbatches. All forward turns are less than all
// backward turns.
std::vector<Rule::Device> forward_first(const Pipeline& pipeline) {
  std::vector<Rule::Device> devices(at(pipeline.devices));
  const int chunks = pipeline.chunks();
  for (int group = 0; group < pipeline.microbatches; group += pipeline.devices) {
    const int end = std::min(group + pipeline.devices, pipeline.microbatches);
    for (int i = 0; i < chunks; ++i) {
      for (int microbatch = group; microbatch < end; ++microbatch) {
        const int last = chunks - 1 - i;
        devices[at(pipeline.device(i))].forward.push_back({{i, microbatch, Pass::forward}, 0});
        devices[at(pipeline.device(last))].backward.push_back(
            {{last, microbatch, Pass::backward}, 1});
      }
    }
  }
  return devices;
}

// Tries orders of software pipelining, and improves the best one.
std::optional<Schedule> best_modulo(const Pipeline& pipeline, const std::vector<Limits>& limits,
                                    const Times& times, Rule rule) {
  std::optional<Schedule> best;
  Nanoseconds least = 0;
  int64_t work = kOrderWork;
  rule.in_order = false;
  for (int i = 0; i < kHops && (work > 0 || !best); ++i) {
    rule.devices = modulo_turns(
        pipeline, {1 + i % kMostHop, 1 + i / 3 % kMostHop, 1 + i / 9 % kMostHop, 1 + i / 27});
    for (size_t device = 0; device < limits.size(); ++device) {
      rule.devices[device].limits = limits[device];
    }
    for (const bool fills : {false, true}) {
      for (const int ahead : kAheads) {
        rule.fills = fills;
        rule.ahead = ahead;
        work -= tasks_of(pipeline);
        std::optional<Schedule> schedule = generate(pipeline, times, rule);
        if (!schedule) {
          continue;
        }
        const Nanoseconds makespan = simulate(pipeline, *schedule, times).makespan;
        if (!best || makespan < least) {
          best = std::move(schedule);
          least = makespan;
        }
      }
    }
  }
  if (best) {
    const int64_t rounds = std::min(kImproveRounds, kImproveWork / tasks_of(pipeline));
    best = improve(pipeline, *std::move(best), times, limits, rounds);
  }
  return best;
}

}  // namespace

std::span<const NamedSchedule> named_schedules() {
  return kSchedules;
}

const NamedSchedule* find_schedule(std::string_view name) {
  const auto found = std::ranges::find(kSchedules, name, &NamedSchedule::name);
  return found == kSchedules.end() ? nullptr : &*found;
}

std::string schedule_names() {
  std::string names;
  for (const NamedSchedule& named : kSchedules) {
    const bool last = named.name == kSchedules.back().name;
    names += fmt::format("{}{}", names.empty() ? "" : last ? " or " : ", ", named.name);
  }
  return names;
}

std::string schedule_hint(std::string_view name) {
  std::vector<std::string> names;
  for (const NamedSchedule& row : named_schedules()) {
    names.emplace_back(row.name);
  }
  const std::string hint = nearest(name, names);
  return hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint);
}

std::string schedules_help() {
  std::string text = "Schedules:\n";
  for (const NamedSchedule& named : kSchedules) {
    text += fmt::format("  {:<12} {} ({})\n", named.name, named.doc, named.source);
  }
  return text;
}

Pipeline named_pipeline(const NamedSchedule& named, const ScheduleRequest& request) {
  const int per_device = named.chunks_per_device;
  const bool any_rows = per_device > 1 && named.layout == Layout::loop;
  if (!request.devices && request.chunks % per_device != 0) {
    fail(ExitCode::usage, "{} has {} stages per device, so --stages must be a multiple of {}",
         named.name, per_device, per_device);
  }
  const int devices = request.devices.value_or(request.chunks / per_device);
  if (any_rows ? request.chunks % devices != 0 : request.chunks != per_device * devices) {
    fail(ExitCode::usage, "{} has {} per device: {} stages do not lie on {} devices", named.name,
         any_rows          ? "equally many stages"
         : per_device == 1 ? "one stage"
                           : fmt::format("{} stages", per_device),
         request.chunks, devices);
  }
  return make_pipeline(named.layout, request.chunks, devices, request.microbatches);
}

std::vector<Limits> named_limits(const NamedSchedule& named, const Pipeline& pipeline,
                                 const ScheduleRequest& request) {
  const int k = named.takes_k ? request.k : 1;
  std::vector<Limits> limits;
  limits.reserve(at(pipeline.devices));
  for (int device = 0; device < pipeline.devices; ++device) {
    limits.push_back(
        {limit_of(named.live, pipeline, device, k), limit_of(named.held, pipeline, device, k)});
  }
  if (request.live) {
    const Limits largest = limits[0];
    for (Limits& limit : limits) {
      limit.live = named.live ? scaled(limit.live, *request.live, largest.live) : *request.live;
      limit.held = named.held ? scaled(limit.held, *request.live, largest.held) : kNoLimit;
    }
  }
  return limits;
}

Schedule make_schedule(const NamedSchedule& named, const Pipeline& pipeline,
                       const std::vector<Limits>& limits, const Times& times) {
  Rule rule{.split = named.split, .pairs = named.pairs};
  std::optional<Schedule> schedule;
  if (named.generator == Generator::modulo) {
    schedule = best_modulo(pipeline, limits, times, std::move(rule));
  } else {
    rule.devices = forward_first(pipeline);
    for (size_t device = 0; device < limits.size(); ++device) {
      rule.devices[device].limits = limits[device];
    }
    schedule = generate(pipeline, times, rule);
  }
  if (!schedule) {
    fail(ExitCode::usage, "{} does not fit in {} live microbatches per device: give --live more",
         named.name, limits[0].live);
  }
  return *std::move(schedule);
}

}  // namespace hidup::pipeline
